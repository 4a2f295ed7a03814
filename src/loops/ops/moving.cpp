// Elements that move or are masked by their index: flip, tril, triu, shuffles of pixels and channels.
#include <algorithm>

#include "graph/rules/broadcast.h"
#include "loops/ops/rows.h"

namespace vesta::loops {

namespace {

ScalarRef flip(Lowering& l, const Node& node, const Value* v, Index index) {
  std::vector<Expr> at(index.begin(), index.end());
  for (Expr e : node.named().integers("dims")) {
    if (at.empty()) break;
    const auto d = static_cast<size_t>(graph::wrap_dim(e, at.size()));
    at[d] = v->type.sizes[d] - 1 - at[d];
  }
  return l.element(node.input(0), at);
}
bool accepts_flip(const Node& node) {
  return std::ranges::all_of(node.named().integers("dims"), [](Expr e) { return e.is_constant(); });
}

template <Prim kKeeps>  // columns so compared with the row's diagonal
ScalarRef triangle(Lowering& l, const Node& node, const Value* v, Index index) {
  Dag& d = l.dag();
  size_t n = index.size();
  ScalarRef row = d.size(DType::I64, index[n - 2] + node.named().integer("diagonal"));
  ScalarRef column = d.size(DType::I64, index[n - 1]);
  ScalarRef keep = d.bin(kKeeps, column, row);
  ScalarRef x = l.element_where(keep, node.input(0), index);
  return d.select(keep, x, d.integer(scalar_type(v->type.dtype), 0));
}

// Moves channels to blocks of factor x factor pixels, and back.
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

// With adjacent channels there are too few at a time to read them as vectors.
bool accepts_channel_shuffle(const Node& node) { return !node.input(0)->type.strides[1].is_constant(1); }

constexpr LoweringRow kMovingRows[] = {
    {.names = "aten::flip", .element = flip, .accepts = accepts_flip, .once = true, .moves = true},
    {.names = "aten::tril", .element = triangle<Prim::Le>, .once = true, .moves = true},
    {.names = "aten::triu", .element = triangle<Prim::Ge>, .once = true, .moves = true},
    {.names = "aten::pixel_shuffle", .element = pixel_shuffle, .once = true},
    {.names = "aten::pixel_unshuffle", .element = pixel_unshuffle, .once = true},
    {.names = "aten::channel_shuffle", .element = channel_shuffle, .accepts = accepts_channel_shuffle, .once = true},
};

}  // namespace

std::span<const LoweringRow> moving_lowerings() { return kMovingRows; }

}  // namespace vesta::loops
