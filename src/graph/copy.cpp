#include "graph/copy.h"

#include <unordered_map>

namespace vesta::graph {
namespace {

class Copier {
 public:
  explicit Copier(const Graph& from) : from_(from), to_(std::make_unique<Graph>()) {
    for (const Expr s : from.context->symbols()) {
      const ExprNode& n = *s.node();
      symbols_.emplace(s, to_->context->size_symbol(n.name, n.hint, n.lower));
    }
  }

  std::unique_ptr<Graph> run() {
    for (const Input& i : from_.inputs) {
      values_[i.value] = to_->add_input(copied(i.value->type), i.kind, i.name);
      to_->inputs.back().alignment = i.alignment;
    }
    from_.for_each_node([&](const Node* n) { add_node(*n); });
    for (const SymbolSource& s : from_.symbols) {
      to_->symbols.push_back(s);
      to_->symbols.back().symbol = copied(s.symbol);
    }
    for (const Output& o : from_.outputs) add_output(o);
    for (const Mutation& m : from_.mutations) to_->mutations.push_back({m.input, copied(m.value)});
    for (const Guard& g : from_.guards) to_->guards.push_back({copied(g.left), g.relation, copied(g.right), g.source});
    return std::move(to_);
  }

 private:
  Expr copied(Expr e) const {
    return e.is_constant() ? e : substitute(e, [&](Expr symbol) { return symbols_.at(symbol); });
  }
  std::vector<Expr> copied(std::vector<Expr> list) const {
    for (Expr& e : list) e = copied(e);
    return list;
  }
  TensorType copied(const TensorType& t) const { return {t.dtype, copied(t.sizes), copied(t.strides), t.device}; }
  Value* copied(const Value* v) const { return v ? values_.at(v) : nullptr; }

  void add_node(const Node& n) {
    std::vector<Arg> args(n.args().begin(), n.args().end());
    for (Arg& a : args) {
      if (auto* v = std::get_if<Value*>(&a)) *v = copied(*v);
      if (auto* e = std::get_if<Expr>(&a)) *e = copied(*e);
      if (auto* list = std::get_if<IntList>(&a)) *list = copied(std::move(*list));
      if (auto* list = std::get_if<ValueList>(&a))
        for (Value*& v : *list) v = copied(v);
    }
    std::vector<TensorType> types;
    for (const Value* v : n.results) types.push_back(v ? copied(v->type) : TensorType{});
    Node* made = to_->add_node(*n.op, std::move(args), std::move(types));
    made->source = n.source;
    made->prepacked = n.prepacked;
    made->raises = n.raises;
    for (size_t i = 0; i < n.results.size(); ++i) {
      if (n.results[i])
        values_[n.results[i]] = made->results[i];
      else
        made->results[i] = nullptr;
    }
  }

  void add_output(const Output& o) {
    Output made = o;
    made.value = copied(o.value);
    made.type = copied(o.type);
    made.storage_offset = copied(o.storage_offset);
    made.integer = copied(o.integer);
    to_->outputs.push_back(std::move(made));
  }

  const Graph& from_;
  std::unique_ptr<Graph> to_;
  std::unordered_map<Expr, Expr> symbols_;
  std::unordered_map<const Value*, Value*> values_;
};

}  // namespace

std::unique_ptr<Graph> copy(const Graph& graph) { return Copier(graph).run(); }

}  // namespace vesta::graph
