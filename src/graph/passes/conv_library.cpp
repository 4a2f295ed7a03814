#include "graph/passes/conv_library.h"

#include "graph/passes/library.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {
namespace {

// A plain call pays only in channels-last, where ATen's own call runs the same oneDNN kernel. The gain is in the fused
// operators.
void fuse(Rewriter& r, Node* n, const Convolution& c) {
  static const Op& unary = declare_op(
      "mkldnn::_convolution_pointwise(Tensor X, Tensor W, Tensor? B, int[] padding, int[] stride, int[] dilation, int "
      "groups, "
      "str attr, Scalar?[] scalars, str? algorithm) -> Tensor Y");
  static const Op& binary = declare_op(
      "mkldnn::_convolution_pointwise.binary(Tensor X, Tensor other, Tensor W, Tensor? B, int[] padding, int[] stride, "
      "int[] dilation, int groups, str binary_attr, Scalar? alpha, str? unary_attr, Scalar?[] unary_scalars, "
      "str? unary_algorithm) -> Tensor Y");
  Graph& g = r.graph();
  Value* y = n->results[0];
  if (!has_one_use(g, y)) return;
  Node* user = y->users[0];
  if (user->results.size() != 1 || !user->results[0] || user->results[0]->type != y->type) return;
  const Arg bias = n->named().get("bias");
  Node* made = nullptr;
  if (const auto a = library_activation(*user); a && value_of(user->args()[0]) == y) {
    if (!r.may()) return;
    made = g.add_node(
        unary, {c.x, c.w, bias, c.padding, c.stride, c.dilation, Expr(c.groups), a->attr, a->scalars, a->algorithm},
        {y->type}, user);
  } else if (Value* other = addend_of(*user, y)) {
    if (!r.may()) return;
    made = g.add_node(binary,
                      {c.x, other, c.w, bias, c.padding, c.stride, c.dilation, Expr(c.groups), std::string("add"), 1.0,
                       None{}, std::vector<double>{}, None{}},
                      {y->type}, user);
  } else {
    return;
  }
  made->source = n->source;
  r.substitute(user->results[0], made->results[0]);
  g.erase(user);
  g.erase(n);
}

}  // namespace

bool use_library_convolution(Graph& graph, const PassContext& context) {
  if (!context.inference) return false;
  Rewriter rewriter(graph, context);
  std::vector<Node*> convolutions;
  graph.for_each_node([&](Node* n) {
    if (as_library_convolution(*n)) convolutions.push_back(n);
  });
  for (Node* n : convolutions) fuse(rewriter, n, *as_library_convolution(*n));
  return rewriter.changed();
}

}  // namespace vesta::graph
