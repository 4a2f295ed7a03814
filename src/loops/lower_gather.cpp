// Reads at places that an integer tensor names: index, gather, embedding, take. That the places exist is checked before
// the kernel runs (index_checks); here they only address memory.
#include <algorithm>

#include "base/check.h"
#include "loops/lower_rows.h"

namespace vesta::loops {

namespace {

using graph::Node;
using graph::ScalarRef;
using graph::TensorType;
using graph::Value;
using Index = Lowering::Index;

bool is_place(const TensorType& t) { return t.dtype == DType::I64 || t.dtype == DType::I32; }

std::optional<size_t> constant_dim(const Node& node) {
  Expr e = node.named().integer("dim");
  auto n = static_cast<int64_t>(node.input(0)->type.dim());
  if (!e.is_constant() || e.constant() < -n || e.constant() >= n) return std::nullopt;
  return static_cast<size_t>(e.constant() < 0 ? e.constant() + n : e.constant());
}

// The place that element `at` of an index tensor names in a dimension of `size`; `wraps`: negative ones count from its
// end.
Expr place(Lowering& l, const Value* index, Index at, Expr size, bool wraps) {
  Dag& d = l.dag();
  ScalarRef i = d.cast(DType::I64, l.element(index, at));
  if (wraps) {
    ScalarRef negative = d.bin(Prim::Lt, i, d.integer(DType::I64, 0));
    if (!l.is_false(negative)) i = d.select(negative, d.bin(Prim::Add, i, d.size(DType::I64, size)), i);
  }
  return d.as_index(i);
}

ScalarRef embedding(Lowering& l, const Node& node, const Value*, Index index) {
  const Value* weight = node.input(0);
  Index at = index.first(index.size() - 1);
  std::vector<Expr> from = {place(l, node.input(1), at, weight->type.sizes[0], false), index.back()};
  return l.element(weight, from);
}
bool accepts_embedding(const Node& node) { return is_place(node.input(1)->type); }

ScalarRef index_select(Lowering& l, const Node& node, const Value*, Index index) {
  size_t d = *constant_dim(node);
  const Value* x = node.input(0);
  const Value* i = node.input(2);
  std::vector<Expr> at, from(index.begin(), index.end());
  if (i->type.dim() == 1) at.push_back(index[d]);
  from[d] = place(l, i, at, x->type.sizes[d], false);
  return l.element(x, from);
}
bool accepts_index_select(const Node& node) {
  return constant_dim(node) && node.input(2)->type.dim() <= 1 && is_place(node.input(2)->type);
}

ScalarRef gather(Lowering& l, const Node& node, const Value*, Index index) {
  size_t d = *constant_dim(node);
  const Value* x = node.input(0);
  std::vector<Expr> from(index.begin(), index.end());
  from[d] = place(l, node.input(2), index, x->type.sizes[d], false);
  return l.element(x, from);
}
bool accepts_gather(const Node& node) {
  return constant_dim(node) && node.input(0)->type.dim() == node.input(2)->type.dim() && is_place(node.input(2)->type);
}

Expr count(const Value* x) {
  Expr n = 1;
  for (Expr s : x->type.sizes) n = n * s;
  return n;
}

ScalarRef take(Lowering& l, const Node& node, const Value*, Index index) {
  const Value* x = node.input(0);
  return l.element(x, delinearize(place(l, node.input(1), index, count(x), true), x->type.sizes));
}
bool accepts_take(const Node& node) { return is_place(node.input(1)->type); }

// index.Tensor: the indices' common dimensions stand where the indexed ones were, or first if those are not neighbours.
struct Indexing {
  std::vector<const Value*> by_dim;  // nullptr: the whole dimension
  size_t before = 0;                 // dimensions of the result before the indices'
  size_t dims = 0;                   // of the indices, broadcast
};

Indexing indexing(const Node& node) {
  Indexing x;
  const auto& given = std::get<graph::ValueList>(node.args()[1]);
  x.by_dim.assign(node.input(0)->type.dim(), nullptr);
  std::copy(given.begin(), given.end(), x.by_dim.begin());
  auto is_index = [](const Value* v) { return v != nullptr; };
  auto first = std::find_if(x.by_dim.begin(), x.by_dim.end(), is_index);
  auto last = std::find_if(x.by_dim.rbegin(), x.by_dim.rend(), is_index).base();
  if (std::all_of(first, last, is_index)) x.before = static_cast<size_t>(first - x.by_dim.begin());
  for (const Value* v : x.by_dim) x.dims = std::max(x.dims, v ? v->type.dim() : 0);
  return x;
}

ScalarRef index_tensor(Lowering& l, const Node& node, const Value*, Index index) {
  Indexing x = indexing(node);
  Index named = index.subspan(x.before, x.dims);
  std::vector<Expr> from;
  size_t at = 0;
  for (size_t d = 0; d < x.by_dim.size(); ++d) {
    if (const Value* i = x.by_dim[d]) {
      std::vector<Expr> own = broadcast_index(named, i->type.sizes);
      from.push_back(place(l, i, own, node.input(0)->type.sizes[d], true));
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

struct Nowhere final : Places {
  const Held* held(const Value*) const override { return nullptr; }
  const Home* home(const Node*) const override { return nullptr; }
};

}  // namespace

bool surely_holds(const IndexCheck& check, const std::shared_ptr<ExprContext>& context) {
  if (!reads_nothing(check.index)) return false;
  Dag dag(context);
  Nowhere nowhere;
  Lowering lowering(dag, nowhere);
  std::vector<Expr> at;
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
  if (op == "aten::take") return {{node.input(1), count(node.input(0)), true}};
  std::vector<IndexCheck> checks;
  if (op == "aten::index.Tensor" || op == "aten::_unsafe_index.Tensor") {
    Indexing x = indexing(node);
    for (size_t d = 0; d < x.by_dim.size(); ++d) {
      if (x.by_dim[d]) checks.push_back({x.by_dim[d], node.input(0)->type.sizes[d], true});
    }
  }
  return checks;
}

}  // namespace vesta::loops
