#include "loops/index_tensors.h"

#include <algorithm>

#include "loops/ops/rows.h"

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

// Whether the value is computed from sizes and indices alone, without reading memory.
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
  const LoweringRow* row = find_lowering(node);
  return row && row->index_checks ? row->index_checks(node) : std::vector<IndexCheck>{};
}

std::vector<IndexCheck> checks_along_dim(const Node& node) {
  return {{node.input(2), node.input(0)->type.sizes[*constant_dim(node)], false}};
}

std::vector<IndexCheck> checks_of_indexing(const Node& node) {
  const Indexing x = indexing(node);
  std::vector<IndexCheck> checks;
  for (size_t d = 0; d < x.by_dim.size(); ++d) {
    if (x.by_dim[d]) checks.push_back({x.by_dim[d], node.input(0)->type.sizes[d], true});
  }
  return checks;
}

}  // namespace vesta::loops
