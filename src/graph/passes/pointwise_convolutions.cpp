// Writes convolutions of 1 x 1 pixels in channels-last as matrix products (aten::linear) where a kernel of ours
// computes these on a CPU: each pixel is a row. The kernel also computes what follows, and there is no call of a
// library, which costs some microseconds. A convolution of one image of one pixel, as in squeeze-and-excite blocks,
// becomes a product of one row.
//
#include <algorithm>

#include "graph/passes/convolution.h"
#include "graph/passes/library.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {
namespace {

bool all_are(const IntList& list, int64_t n) {
  return std::all_of(list.begin(), list.end(), [&](Expr e) { return e.is_constant(n); });
}

bool is_one_pixel(const TensorType& x) { return (x.sizes[0] * x.sizes[2] * x.sizes[3]).is_constant(1); }

bool is_product(const Convolution& c, const TensorType& y, const PassContext& context) {
  const TensorType &x = c.x->type, &w = c.w->type;
  if (c.groups != 1 || x.dtype != DType::F32 || !all_are(c.stride, 1) || !all_are(c.padding, 0) ||
      !w.sizes[2].is_constant(1) || !w.sizes[3].is_constant(1) || !w.sizes[0].is_constant() ||
      !w.sizes[1].is_constant() || !lies_channels_last(x) || !lies_channels_last(w))
    return false;
  if (is_one_pixel(x)) return is_contiguous(y);
  const Expr pixels = x.sizes[0] * x.sizes[2] * x.sizes[3];
  return y.strides == channels_last_strides(y.sizes) &&
         context.computes_product(hint(pixels), w.sizes[0].constant(), w.sizes[1].constant());
}

}  // namespace

bool write_pointwise_convolutions(Graph& graph, const PassContext& context) {
  if (!context.inference || !context.computes_product) return false;
  Rewriter rewriter(graph, context);
  const std::vector<bool> parameters = parameters_of(graph);
  graph.for_each_node([&](Node* n) {
    const std::optional<Convolution> c = as_library_convolution(*n);
    Value* const y = c ? n->results[0] : nullptr;
    if (!c || n->prepacked || rewriter.is_output(y) || !is_product(*c, y->type, context) || !rewriter.may()) return;
    Builder b(graph, n);
    b.source = n->source;
    const bool one = is_one_pixel(c->x->type);
    Value* const rows = one ? b("aten::view", {c->x, IntList{1, c->x->type.sizes[1]}})
                            : b("aten::permute", {c->x, IntList{0, 2, 3, 1}});
    Node* const matrix = b.node("aten::view", {c->w, IntList{c->w->type.sizes[0], c->w->type.sizes[1]}});
    matrix->prepacked = is_constant_weight(parameters, c->w);
    Value* const product = b("aten::linear", {rows, matrix->results[0], n->named().get("bias")});
    rewriter.substitute(y, one ? b("aten::view", {product, IntList(y->type.sizes)})
                               : b("aten::permute", {product, IntList{0, 3, 1, 2}}));
    graph.erase(n);
  });
  return rewriter.changed();
}

}  // namespace vesta::graph
