// Reads at places that an integer tensor names: index, gather, embedding, take. That the places exist is checked before
// the kernel runs (index_checks), or by the kernel itself where the lowering asserts it.
#include <algorithm>

#include "loops/lower_rows.h"
#include "loops/places.h"

namespace vesta::loops {

Indexing indexing(const graph::Node& node) {
  Indexing x;
  const auto& given = std::get<graph::ValueList>(node.args()[1]);
  x.by_dim.assign(node.input(0)->type.dim(), nullptr);
  std::copy(given.begin(), given.end(), x.by_dim.begin());
  auto is_index = [](const graph::Value* v) { return v != nullptr; };
  auto first = std::find_if(x.by_dim.begin(), x.by_dim.end(), is_index);
  auto last = std::find_if(x.by_dim.rbegin(), x.by_dim.rend(), is_index).base();
  if (std::all_of(first, last, is_index)) x.before = static_cast<size_t>(first - x.by_dim.begin());
  for (const graph::Value* v : x.by_dim) x.dims = std::max(x.dims, v ? v->type.dim() : 0);
  return x;
}

Expr Lowering::place(const graph::Value* index, Index at, Expr size, bool wraps) {
  ScalarRef i = dag_.cast(DType::I64, element(index, at));
  if (wraps) {
    ScalarRef negative = dag_.bin(Prim::Lt, i, dag_.integer(DType::I64, 0));
    if (!is_false(negative)) i = dag_.select(negative, dag_.bin(Prim::Add, i, dag_.size(DType::I64, size)), i);
  }
  if (!manner_.asserts_places) return dag_.as_index(i);
  const auto known = dag_.affine(i);
  if (known && provably_at_least(*known, 0) && provably_less(*known, size)) return *known;
  ScalarRef holds = dag_.logical_and(dag_.bin(Prim::Ge, i, dag_.integer(DType::I64, 0)),
                                     dag_.bin(Prim::Lt, i, dag_.size(DType::I64, size)));
  if (mask_.id != kNoRef) holds = dag_.bin(Prim::Or, dag_.un(Prim::Not, mask_), holds);
  return dag_.as_index(i, holds);
}

namespace {

using graph::Node;
using graph::ScalarRef;
using graph::Value;
using Index = Lowering::Index;

ScalarRef embedding(Lowering& l, const Node& node, const Value*, Index index) {
  const Value* weight = node.input(0);
  Index at = index.first(index.size() - 1);
  std::vector<Expr> from = {l.place(node.input(1), at, weight->type.sizes[0], false), index.back()};
  return l.element(weight, from);
}
bool accepts_embedding(const Node& node) { return is_place(node.input(1)->type); }

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
  return constant_dim(node) && node.input(2)->type.dim() <= 1 && is_place(node.input(2)->type);
}

ScalarRef gather(Lowering& l, const Node& node, const Value*, Index index) {
  size_t d = *constant_dim(node);
  const Value* x = node.input(0);
  std::vector<Expr> from(index.begin(), index.end());
  from[d] = l.place(node.input(2), index, x->type.sizes[d], false);
  return l.element(x, from);
}
bool accepts_gather(const Node& node) {
  return constant_dim(node) && node.input(0)->type.dim() == node.input(2)->type.dim() && is_place(node.input(2)->type);
}

ScalarRef take(Lowering& l, const Node& node, const Value*, Index index) {
  const Value* x = node.input(0);
  return l.element(x, delinearize(l.place(node.input(1), index, numel(x->type), true), x->type.sizes));
}
bool accepts_take(const Node& node) { return is_place(node.input(1)->type); }

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
         std::all_of(given.begin(), given.end(), [](const Value* v) { return !v || is_place(v->type); });
}

constexpr ElementRow kRows[] = {
    {"aten::embedding", embedding, accepts_embedding, false, true, true},
    {"aten::index_select", index_select, accepts_index_select, false, true, true},
    {"aten::gather", gather, accepts_gather, false, true, true},
    {"aten::take", take, accepts_take, false, true, true},
    {"aten::index.Tensor", index_tensor, accepts_index, false, true, true},
    {"aten::_unsafe_index.Tensor", index_tensor, accepts_index, false, true, true},
};

}  // namespace

std::span<const ElementRow> gather_elements() { return kRows; }

namespace {

// Computed from sizes and positions, reading no memory.
bool reads_nothing(const Value* v, int depth = 8) {
  const Node* node = v->producer;
  if (!node || depth == 0) return false;
  if (node->op->family() == graph::Family::Factory) return why_not_lowered(*node).empty();
  if (node->op->family() != graph::Family::View && node->op->family() != graph::Family::Pointwise) return false;
  bool nothing = why_not_lowered(*node).empty();
  node->for_each_input([&](Value* x) { nothing = nothing && reads_nothing(x, depth - 1); });
  return nothing;
}

struct NoBuffers final : BufferLookup {
  const MemoryRef* memory_of(const Value*) const override { return nullptr; }
  const IndexMap* index_map(const Node*) const override { return nullptr; }
};

}  // namespace

bool surely_holds(const IndexCheck& check, const std::shared_ptr<ExprContext>& context) {
  if (!reads_nothing(check.index)) return false;
  Dag dag(context);
  NoBuffers no_buffers;
  Lowering lowering(dag, no_buffers);
  std::vector<Expr> at;
  at.reserve(check.index->type.dim());
  for (Expr size : check.index->type.sizes) at.push_back(context->loop_symbol("at", size));
  std::optional<Expr> i = dag.affine(dag.cast(DType::I64, lowering.element(check.index, at)));
  return i && provably_at_least(*i, check.wraps ? -check.size : Expr(0)) && provably_less(*i, check.size);
}

std::vector<IndexCheck> index_checks(const Node& node) {
  const std::string& op = node.op->name;
  if (op == "aten::embedding") return {{node.input(1), node.input(0)->type.sizes[0], false}};
  if (op == "aten::index_select" || op == "aten::gather") {
    return {{node.input(2), node.input(0)->type.sizes[*constant_dim(node)], false}};
  }
  if (op == "aten::take") return {{node.input(1), numel(node.input(0)->type), true}};
  if (op == "aten::index_copy" || op == "aten::index_add" || op.starts_with("aten::scatter")) {
    return {{node.input(2), node.input(0)->type.sizes[*constant_dim(node)], false}};
  }
  std::vector<IndexCheck> checks;
  if (op == "aten::index_put" || op == "aten::_unsafe_index_put" || op == "aten::index.Tensor" ||
      op == "aten::_unsafe_index.Tensor") {
    Indexing x = indexing(node);
    for (size_t d = 0; d < x.by_dim.size(); ++d) {
      if (x.by_dim[d]) checks.push_back({x.by_dim[d], node.input(0)->type.sizes[d], true});
    }
  }
  return checks;
}

}  // namespace vesta::loops
