// Writes the derivative of a convolution of 1 x 1 pixels in channels-last as two products: of the rows of the tangent,
// one for each pixel, with the weight, and with the rows of x. PyTorch's call holds the gradient of the weight three
// times at its end: as oneDNN returns it, in PyTorch's default order, and in channels-last. Part of the pass
// "convolution-products", for training on a CPU.
//
// This pays where the weight has more elements than one of the operands that have rows. Measured (float32, two threads,
// both products): with AVX-512 0.52 ms instead of 0.78 for 384 channels, 768 of the result and 32 rows, 3.4 instead of
// 4.3 for 512, 1024 and 128, 2.9 instead of 3.0 for 960, 160 and 392; with AVX2 0.34 instead of 0.46 for 112, 480 and
// 128. With more rows the library is faster: 0.72 instead of 0.77 for 16, 96 and 8,192.
#include <algorithm>

#include "graph/joint.h"
#include "graph/passes/convolution.h"
#include "graph/passes/library.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {
namespace {

// The node as a derivative that pays as products.
std::optional<ConvolutionBackward> as_pointwise(const Node& n) {
  auto c = as_convolution_backward(n);
  if (!c || c->groups != 1 || !all_are(c->stride, 1) || !all_are(c->padding, 0)) return std::nullopt;
  const TensorType &x = c->x->type, &w = c->w->type, &y = c->tangent->type;
  if (x.device.type != DeviceType::CPU || x.dtype != DType::F32 || !is_contiguous(w)) return std::nullopt;
  if (!lies_channels_last(x) || !lies_channels_last(y)) return std::nullopt;
  if (!w.sizes[2].is_constant(1) || !w.sizes[3].is_constant(1)) return std::nullopt;
  const int64_t rows = hint(x.sizes[0] * x.sizes[2] * x.sizes[3]);
  if (rows > std::max(hint(w.sizes[0]), hint(w.sizes[1]))) return std::nullopt;
  return c;
}

// [pixels, channels], a view.
Value* rows_of(Builder& b, Value* v) {
  const IntList& sizes = v->type.sizes;
  Value* const last = b("aten::permute", {v, IntList{0, 2, 3, 1}});
  return b("aten::view", {last, IntList{sizes[0] * sizes[2] * sizes[3], sizes[1]}});
}

}  // namespace

bool has_pointwise_gradients(const Graph& graph, const PassContext& context) {
  if (!may_reorder_sums(context)) return false;
  for (const Node* n = graph.first(); n; n = n->next)
    if (as_pointwise(*n)) return true;
  return false;
}

bool write_pointwise_gradients(Graph& graph, const PassContext& context, Joint& joint) {
  if (!may_reorder_sums(context)) return false;
  Rewriter rewriter(graph, context);
  graph.for_each_node([&](Node* n) {
    const std::optional<ConvolutionBackward> o = as_pointwise(*n);
    if (!o || !rewriter.may()) return;
    Node* const before = n->prev;
    Builder b(graph, n);
    b.source = n->source;
    Value* const tangent = rows_of(b, o->tangent);
    const IntList &x = o->x->type.sizes, &w = o->w->type.sizes;
    if (Value* const of_x = n->results[0]) {
      Value* const rows = b("aten::mm", {tangent, b("aten::view", {o->w, IntList{w[0], w[1]}})});
      Value* const pixels = b("aten::view", {rows, IntList{x[0], x[2], x[3], x[1]}});
      rewriter.substitute(of_x, b("aten::permute", {pixels, IntList{0, 3, 1, 2}}));
    }
    if (Value* const of_w = n->results[1])
      rewriter.substitute(of_w,
                          b("aten::view", {b("aten::mm", {b("aten::t", {tangent}), rows_of(b, o->x)}), IntList(w)}));
    if (Value* const of_bias = n->results[2])
      rewriter.substitute(of_bias, b("aten::sum.dim_IntList", {o->tangent, IntList{0, 2, 3}}));
    const bool was_first = n == joint.first_backward;
    graph.erase(n);
    if (was_first) joint.first_backward = before ? before->next : graph.first();
  });
  return rewriter.changed();
}

}  // namespace vesta::graph
