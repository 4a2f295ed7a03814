// Concatenation: either an element is read from the one piece that has it, or each piece is stored at its offset.
#include "loops/ops/rows.h"

namespace vesta::loops {
namespace {

constexpr size_t kMostPieces = 4;  // each element tests every piece; beyond this, ATen's copies are faster

const graph::ValueList& pieces(const Node& node) { return std::get<graph::ValueList>(node.args()[0]); }

// at::cat ignores one-dimensional empty tensors, whatever the shape of the others is.
bool is_skipped(const Value* v) { return v->type.dim() == 1 && v->type.sizes[0].is_constant(0); }

// The pieces, each with its start along the dimension.
std::vector<std::pair<const Value*, Expr>> parts_of(const Node& cat) {
  const size_t d = *constant_dim(cat);
  std::vector<std::pair<const Value*, Expr>> out;
  Expr begin = 0;
  for (const Value* p : pieces(cat)) {
    if (is_skipped(p)) continue;
    out.emplace_back(p, begin);
    begin = begin + p->type.sizes[d];
  }
  return out;
}

ScalarRef cat(Lowering& l, const Node& node, const Value* v, Index index) {
  size_t d = *constant_dim(node);
  ScalarRef result;
  const auto parts = parts_of(node);
  DType t = scalar_type(v->type.dtype);
  for (size_t k = parts.size(); k-- > 0;) {
    auto [p, from] = parts[k];
    Expr end = from + p->type.sizes[d];
    ScalarRef here = l.in_range(index[d], from, end);
    if (l.is_false(here)) continue;
    std::vector<Expr> at(index.begin(), index.end());
    at[d] = at[d] - from;
    ScalarRef x = l.dag().cast(t, l.element_where(here, p, at));
    result = result.id == kNoRef ? x : l.dag().select(l.less(index[d], end), x, result);
  }
  return result.id == kNoRef ? l.dag().integer(t, 0) : result;
}

bool accepts_cat(const Node& node) {
  if (pieces(node).size() > kMostPieces || !constant_dim(node)) return false;
  for (const Value* p : pieces(node)) {
    if (!p || (!is_skipped(p) && p->type.dim() != node.results[0]->type.dim())) return false;
  }
  return true;
}

std::vector<Piece> pieces_of_cat(const Node& node) {
  if (!constant_dim(node)) return {};
  std::vector<Piece> out;
  for (const auto& [v, begin] : parts_of(node)) out.push_back({v, v->type.sizes});
  return out;
}

std::vector<Expr> piece_place(Lowering&, const Node& node, Index at, const Reads&, size_t piece) {
  std::vector<Expr> place(at.begin(), at.end());
  Expr& along = place[*constant_dim(node)];
  along = along + parts_of(node).at(piece).second;
  return place;
}

constexpr UpdateForm kPieces = {
    .source = 0, .written = nullptr, .indices = no_indices, .place = piece_place, .pieces = pieces_of_cat};

constexpr LoweringRow kJoiningRows[] = {
    {.names = "aten::cat", .element = cat, .accepts = accepts_cat, .once = true, .moves = true, .update = &kPieces},
};

}  // namespace

std::span<const LoweringRow> joining_lowerings() { return kJoiningRows; }

}  // namespace vesta::loops
