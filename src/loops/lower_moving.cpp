// Elements that move or are masked by their place: flip, roll, repeat, tril, triu, shuffles of pixels and channels.
#include "graph/ops/broadcast.h"
#include "loops/lower_rows.h"

namespace vesta::loops {

namespace {

using graph::Node;
using graph::ScalarRef;
using graph::Value;
using Index = Lowering::Index;

bool constant_list(const Node& node, const char* name) {
  for (Expr e : node.named().integers(name)) {
    if (!e.is_constant()) return false;
  }
  return true;
}

ScalarRef flip(Lowering& l, const Node& node, const Value* v, Index index) {
  std::vector<Expr> at(index.begin(), index.end());
  for (Expr e : node.named().integers("dims")) {
    if (at.empty()) break;
    const auto d = static_cast<size_t>(graph::wrap_dim(e, at.size()));
    at[d] = v->type.sizes[d] - 1 - at[d];
  }
  return l.element(node.input(0), at);
}
bool accepts_flip(const Node& node) { return constant_list(node, "dims"); }

ScalarRef roll(Lowering& l, const Node& node, const Value* v, Index index) {
  const graph::IntList& shifts = node.named().integers("shifts");
  const graph::IntList& dims = node.named().integers("dims");
  const std::vector<Expr>& sizes = v->type.sizes;
  std::vector<Expr> at(index.begin(), index.end());
  if (dims.empty()) {
    const Expr n = numel(v->type);
    if (!sizes.empty() && !n.is_constant(0)) at = delinearize(mod(linear_index(index, sizes) - shifts[0], n), sizes);
  }
  for (size_t k = 0; k < dims.size(); ++k) {
    const auto d = static_cast<size_t>(graph::wrap_dim(dims[k], at.size()));
    if (!sizes[d].is_constant(0)) at[d] = mod(at[d] - shifts[k], sizes[d]);
  }
  return l.element(node.input(0), at);
}
bool accepts_roll(const Node& node) {
  const graph::IntList& dims = node.named().integers("dims");
  const graph::IntList& shifts = node.named().integers("shifts");
  return constant_list(node, "dims") && (dims.empty() ? shifts.size() == 1 : shifts.size() == dims.size());
}

ScalarRef repeat(Lowering& l, const Node& node, const Value*, Index index) {
  const graph::TensorType& t = node.input(0)->type;
  size_t lead = index.size() - t.dim();
  std::vector<Expr> at(t.dim());
  for (size_t d = 0; d < t.dim(); ++d) {
    at[d] = t.sizes[d].is_constant(0) || t.sizes[d].is_constant(1) ? Expr(0) : mod(index[lead + d], t.sizes[d]);
  }
  return l.element(node.input(0), at);
}

ScalarRef triangle(Lowering& l, const Node& node, const Value* v, Index index, bool lower) {
  Dag& d = l.dag();
  size_t n = index.size();
  ScalarRef row = d.size(DType::I64, index[n - 2] + node.named().integer("diagonal"));
  ScalarRef column = d.size(DType::I64, index[n - 1]);
  ScalarRef keep = d.bin(lower ? Prim::Le : Prim::Ge, column, row);
  ScalarRef x;
  {
    Lowering::Masked masked(l, keep);
    x = l.element(node.input(0), index);
  }
  return d.select(keep, x, d.integer(scalar_type(v->type.dtype), 0));
}
ScalarRef tril(Lowering& l, const Node& node, const Value* v, Index index) { return triangle(l, node, v, index, true); }
ScalarRef triu(Lowering& l, const Node& node, const Value* v, Index index) {
  return triangle(l, node, v, index, false);
}

// Channels to blocks of factor x factor pixels, and back.
ScalarRef pixel_shuffle(Lowering& l, const Node& node, const Value*, Index index) {
  std::vector<Expr> at(index.begin(), index.end());
  const size_t c = at.size() - 3;
  Expr r = node.named().integer("upscale_factor");
  at[c] = (index[c] * r + mod(index[c + 1], r)) * r + mod(index[c + 2], r);
  at[c + 1] = floordiv(index[c + 1], r);
  at[c + 2] = floordiv(index[c + 2], r);
  return l.element(node.input(0), at);
}
ScalarRef pixel_unshuffle(Lowering& l, const Node& node, const Value*, Index index) {
  std::vector<Expr> at(index.begin(), index.end());
  const size_t c = at.size() - 3;
  Expr r = node.named().integer("downscale_factor");
  at[c] = floordiv(index[c], r * r);
  at[c + 1] = index[c + 1] * r + mod(floordiv(index[c], r), r);
  at[c + 2] = index[c + 2] * r + mod(index[c], r);
  return l.element(node.input(0), at);
}
ScalarRef channel_shuffle(Lowering& l, const Node& node, const Value* v, Index index) {
  std::vector<Expr> at(index.begin(), index.end());
  Expr groups = node.named().integer("groups");
  at[1] = mod(index[1], groups) * floordiv(v->type.sizes[1], groups) + floordiv(index[1], groups);
  return l.element(node.input(0), at);
}

// Channels that lie side by side are too few at a time to be read as vectors.
bool accepts_channel_shuffle(const Node& node) { return !node.input(0)->type.strides[1].is_constant(1); }

constexpr ElementRow kRows[] = {
    {"aten::flip", flip, accepts_flip, true, false, true},
    {"aten::roll", roll, accepts_roll, true, false, true},
    {"aten::repeat", repeat, nullptr, false, false, true},
    {"aten::tril", tril, nullptr, true, false, true},
    {"aten::triu", triu, nullptr, true, false, true},
    {"aten::pixel_shuffle", pixel_shuffle, nullptr, true},
    {"aten::pixel_unshuffle", pixel_unshuffle, nullptr, true},
    {"aten::channel_shuffle", channel_shuffle, accepts_channel_shuffle, true},
};

}  // namespace

std::span<const ElementRow> moving_elements() { return kRows; }

}  // namespace vesta::loops
