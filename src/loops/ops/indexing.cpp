// Reads at indices that integer tensors hold: index, gather, embedding, take.
#include <algorithm>

#include "loops/ops/rows.h"

namespace vesta::loops {

namespace {

ScalarRef embedding(Lowering& l, const Node& node, const Value*, Index index) {
  const Value* weight = node.input(0);
  Index at = index.first(index.size() - 1);
  std::vector<Expr> from = {l.place(node.input(1), at, weight->type.sizes[0], false), index.back()};
  return l.element(weight, from);
}
bool accepts_embedding(const Node& node) { return is_index_type(node.input(1)->type); }

ScalarRef index_select(Lowering& l, const Node& node, const Value*, Index index) {
  size_t d = *constant_dim(node);
  const Value* x = node.input(0);
  const Value* i = node.input(2);
  std::vector<Expr> at, from(index.begin(), index.end());
  if (i->type.dim() == 1) at.push_back(index[d]);
  from[d] = l.place(i, at, x->type.sizes[d], false);
  return l.element(x, from);
}
bool accepts_index_select(const Node& node) {
  return constant_dim(node) && node.input(2)->type.dim() <= 1 && is_index_type(node.input(2)->type);
}

ScalarRef gather(Lowering& l, const Node& node, const Value*, Index index) {
  size_t d = *constant_dim(node);
  const Value* x = node.input(0);
  std::vector<Expr> from(index.begin(), index.end());
  from[d] = l.place(node.input(2), index, x->type.sizes[d], false);
  return l.element(x, from);
}
bool accepts_gather(const Node& node) {
  return constant_dim(node) && node.input(0)->type.dim() == node.input(2)->type.dim() &&
         is_index_type(node.input(2)->type);
}

ScalarRef take(Lowering& l, const Node& node, const Value*, Index index) {
  const Value* x = node.input(0);
  return l.element(x, delinearize(l.place(node.input(1), index, numel(x->type), true), x->type.sizes));
}
bool accepts_take(const Node& node) { return is_index_type(node.input(1)->type); }

ScalarRef index_tensor(Lowering& l, const Node& node, const Value*, Index index) {
  Indexing x = indexing(node);
  Index named = index.subspan(x.before, x.dims);
  std::vector<Expr> from;
  size_t at = 0;
  for (size_t d = 0; d < x.by_dim.size(); ++d) {
    if (const Value* i = x.by_dim[d]) {
      std::vector<Expr> own = broadcast_index(named, i->type.sizes);
      from.push_back(l.place(i, own, node.input(0)->type.sizes[d], true));
      continue;
    }
    if (at == x.before) at += x.dims;
    from.push_back(index[at++]);
  }
  return l.element(node.input(0), from);
}
bool accepts_index(const Node& node) {
  const auto& given = std::get<graph::ValueList>(node.args()[1]);
  return given.size() <= node.input(0)->type.dim() &&
         std::any_of(given.begin(), given.end(), [](const Value* v) { return v != nullptr; }) &&
         std::all_of(given.begin(), given.end(), [](const Value* v) { return !v || is_index_type(v->type); });
}

std::vector<IndexCheck> checks_of_embedding(const Node& node) {
  return {{node.input(1), node.input(0)->type.sizes[0], false}};
}
std::vector<IndexCheck> checks_of_take(const Node& node) { return {{node.input(1), numel(node.input(0)->type), true}}; }

constexpr LoweringRow gather_row(const char* names, ElementFn element, bool (*accepts)(const Node&),
                                 IndexCheckFn checks) {
  return {
      .names = names, .element = element, .accepts = accepts, .gathers = true, .moves = true, .index_checks = checks};
}
constexpr LoweringRow gather_of_rows(LoweringRow row) {
  row.whole_rows = true;
  return row;
}
constexpr LoweringRow maybe_one_hot(LoweringRow row) {
  row.one_hot = true;
  return row;
}

constexpr LoweringRow kIndexingRows[] = {
    gather_of_rows(gather_row("aten::embedding", embedding, accepts_embedding, checks_of_embedding)),
    gather_row("aten::index_select", index_select, accepts_index_select, checks_along_dim),
    maybe_one_hot(gather_row("aten::gather", gather, accepts_gather, checks_along_dim)),
    gather_row("aten::take", take, accepts_take, checks_of_take),
    gather_row("aten::index.Tensor aten::_unsafe_index.Tensor", index_tensor, accepts_index, checks_of_indexing),
};

}  // namespace

std::span<const LoweringRow> indexing_lowerings() { return kIndexingRows; }

}  // namespace vesta::loops
