// Turns aten::convolution, with the activation or the addition that follows it, into one call of oneDNN's fused
// convolution (library.h). For inference on the CPU only.
#include "graph/passes/library.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {
namespace {

// A plain call pays only in channels-last, where ATen's own call runs the same oneDNN kernel. The gain is in the fused
// operators.
void fuse(Rewriter& r, Node* n, const Convolution& c) {
  Graph& g = r.graph();
  Value* y = n->results[0];
  if (!has_one_use(g, y)) return;
  Node* user = y->users[0];
  if (user->results.size() != 1 || !user->results[0] || user->results[0]->type != y->type) return;
  const Arg bias = n->named().get("bias");
  Value* out = user->results[0];
  if (const auto a = library_activation(*user); a && value_of(user->args()[0]) == y) {
    if (!r.may()) return;
    r.substitute(out, n, pointwise_convolution(),
                 {c.x, c.w, bias, c.padding, c.stride, c.dilation, Expr(c.groups), a->attr, a->scalars, a->algorithm},
                 user);
  } else if (Value* other = addend_of(*user, y)) {
    if (!r.may()) return;
    r.substitute(out, n, adding_convolution(),
                 {c.x, other, c.w, bias, c.padding, c.stride, c.dilation, Expr(c.groups), std::string("add"), 1.0,
                  None{}, std::vector<double>{}, None{}},
                 user);
  } else {
    return;
  }
  g.erase(user);
  g.erase(n);
}

}  // namespace

bool use_library_convolution(Graph& graph, const PassContext& context) {
  if (!context.inference) return false;
  Rewriter rewriter(graph, context);
  std::vector<Node*> convolutions;
  graph.for_each_node([&](Node* n) {
    if (as_library_convolution(*n, context)) convolutions.push_back(n);
  });
  for (Node* n : convolutions) fuse(rewriter, n, *as_library_convolution(*n, context));
  return rewriter.changed();
}

}  // namespace vesta::graph
