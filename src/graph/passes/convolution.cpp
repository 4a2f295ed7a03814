#include "graph/passes/convolution.h"

#include <algorithm>

#include "graph/passes/rewriter.h"

namespace vesta::graph {
namespace {

bool are_2d_floats(const Value* x, const Value* w, const Value* y) {
  if (x->type.dim() != 4 || !is_float(x->type.dtype) || w->type.dtype != x->type.dtype) return false;
  for (const Value* v : {x, w, y})
    for (Expr s : v->type.sizes)
      if (s.is_constant(0)) return false;
  return true;
}

}  // namespace

std::optional<Convolution> as_convolution(const Node& n) {
  if (!is_op(&n, "aten::convolution") || n.prepacked) return std::nullopt;
  const NodeArgs a = n.named();
  if (a.boolean("transposed")) return std::nullopt;
  Convolution c;
  c.x = n.input(0);
  c.w = n.input(1);
  c.bias = value_of(a.get("bias"));
  if (!are_2d_floats(c.x, c.w, n.results[0])) return std::nullopt;
  if (c.bias && c.bias->type.dtype != c.x->type.dtype) return std::nullopt;
  c.stride = a.integers("stride");
  c.padding = a.integers("padding");
  c.dilation = a.integers("dilation");
  for (const IntList* l : {&c.stride, &c.padding, &c.dilation}) {
    if (l->size() != 2) return std::nullopt;
    for (Expr e : *l)
      if (!e.is_constant()) return std::nullopt;
  }
  const Expr groups = a.integer("groups");
  if (!groups.is_constant()) return std::nullopt;
  c.groups = groups.constant();
  return c;
}

std::optional<ConvolutionBackward> as_convolution_backward(const Node& n) {
  if (!is_op(&n, "aten::convolution_backward")) return std::nullopt;
  const NodeArgs a = n.named();
  ConvolutionBackward c{.tangent = n.input(0), .x = n.input(1), .w = n.input(2)};
  if (a.boolean("transposed") || !are_2d_floats(c.x, c.w, c.tangent)) return std::nullopt;
  c.stride = a.integers("stride");
  c.padding = a.integers("padding");
  const Expr groups = a.integer("groups");
  if (c.stride.size() != 2 || c.padding.size() != 2 || !groups.is_constant()) return std::nullopt;
  c.groups = groups.constant();
  return c;
}

bool all_are(const IntList& list, int64_t n) {
  return std::ranges::all_of(list, [n](Expr e) { return e.is_constant(n); });
}

std::vector<Expr> channels_last_strides(const std::vector<Expr>& sizes) {
  const Expr c = sizes[1], h = sizes[2], w = sizes[3];
  return {c * h * w, 1, c * w, c};
}

bool lies_channels_last(const TensorType& t) {
  const std::vector<Expr> strides = channels_last_strides(t.sizes);
  for (size_t d = 0; d < t.sizes.size(); ++d)
    if (!t.sizes[d].is_constant(1) && t.strides[d] != strides[d]) return false;
  return true;
}

}  // namespace vesta::graph
