// Replaces size symbols by what the guards say they equal: a constant, or an expression of other symbols. Types that
// are equal by a guard are then written alike, which decompositions and fusion need.
#include <unordered_map>

#include "graph/passes/passes.h"

namespace vesta::graph {
namespace {

class KnownSizes {
 public:
  explicit KnownSizes(const Graph& g) {
    // Equations that give a constant come first, because they remove symbols from the others.
    for (const bool constants : {true, false}) {
      for (const Guard& guard : g.guards)
        if (guard.relation == Relation::Equal) solve((*this)(guard.left), (*this)(guard.right), constants);
    }
  }

  bool any() const { return !known_.empty(); }

  Expr operator()(Expr e) const {
    if (e.is_constant() || known_.empty()) return e;
    return substitute(e, [&](Expr symbol) {
      const auto it = known_.find(symbol);
      return it == known_.end() ? symbol : it->second;
    });
  }
  void rewrite(std::vector<Expr>& list) const {
    for (Expr& e : list) e = (*this)(e);
  }
  void rewrite(TensorType& type) const {
    rewrite(type.sizes);
    rewrite(type.strides);
  }

 private:
  // Neither side contains a symbol that is known already.
  void solve(Expr left, Expr right, bool constants) {
    const Expr difference = left - right;
    std::optional<std::pair<Expr, Expr>> best;
    for (Expr symbol : symbols_of(difference)) {
      const std::optional<Expr> factor = coefficient_of(difference, symbol);
      if (!factor || !factor->is_constant() || factor->constant() == 0) continue;
      const Expr rest = difference - *factor * symbol;
      const int64_t by = factor->constant();
      std::optional<Expr> value;
      if (rest.is_constant() && rest.constant() % by == 0)
        value = -rest.constant() / by;
      else if (!constants && (by == 1 || by == -1))
        value = by == 1 ? -rest : rest;
      // The last symbol is expressed by the symbols before it.
      if (value && (!constants || value->is_constant())) best = {symbol, *value};
    }
    if (!best) return;
    known_.emplace(best->first, best->second);
    for (auto& [symbol, value] : known_) value = (*this)(value);
  }

  std::unordered_map<Expr, Expr> known_;
};

Arg rewritten(const KnownSizes& known, const Arg& arg) {
  if (const auto* e = std::get_if<Expr>(&arg)) return known(*e);
  if (const auto* list = std::get_if<IntList>(&arg)) {
    IntList out = *list;
    known.rewrite(out);
    return out;
  }
  return arg;
}

}  // namespace

bool use_known_sizes(Graph& graph, const PassContext& context) {
  const KnownSizes known(graph);
  if (!known.any() || !context.may_rewrite()) return false;
  for (const Input& input : graph.inputs) known.rewrite(input.value->type);
  graph.for_each_node([&](Node* node) {
    for (Value* v : node->results)
      if (v) known.rewrite(v->type);
    for (size_t i = 0; i < node->args().size(); ++i) {
      const Arg& arg = node->args()[i];
      if (Arg with = rewritten(known, arg); with != arg) graph.set_arg(node, i, std::move(with));
    }
  });
  for (Output& out : graph.outputs) {
    known.rewrite(out.type);
    out.storage_offset = known(out.storage_offset);
    out.integer = known(out.integer);
  }
  return true;
}

}  // namespace vesta::graph
