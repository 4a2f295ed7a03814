#include "graph/copy.h"

#include <utility>

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
  TensorType copied(const TensorType& t) const { return mapped(t, map_); }
  Value* copied(const Value* v) const { return v ? values_.at(v) : nullptr; }

  void add_node(const Node& n) {
    Node* const made = add_copy(*to_, n, map_, values_);
    made->prepacked = n.prepacked;
    made->raises = n.raises;
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
  const ExprMap map_ = [this](Expr e) { return copied(e); };
  std::unique_ptr<Graph> to_;
  std::unordered_map<Expr, Expr> symbols_;
  std::unordered_map<const Value*, Value*> values_;
};

}  // namespace

std::unique_ptr<Graph> copy(const Graph& graph) { return Copier(graph).run(); }

std::vector<Expr> mapped(std::vector<Expr> list, const ExprMap& map) {
  for (Expr& e : list) e = map(e);
  return list;
}

TensorType mapped(const TensorType& type, const ExprMap& map) {
  return {type.dtype, mapped(type.sizes, map), mapped(type.strides, map), type.device};
}

Node* add_copy(Graph& to, const Node& node, const ExprMap& map, std::unordered_map<const Value*, Value*>& values) {
  const auto copied = [&](const Value* v) { return v ? values.at(v) : nullptr; };
  std::vector<Arg> args(node.args().begin(), node.args().end());
  for (Arg& a : args) {
    if (auto* v = std::get_if<Value*>(&a)) *v = copied(*v);
    if (auto* e = std::get_if<Expr>(&a)) *e = map(*e);
    if (auto* list = std::get_if<IntList>(&a)) *list = mapped(std::move(*list), map);
    if (auto* list = std::get_if<ValueList>(&a))
      for (Value*& v : *list) v = copied(v);
  }
  std::vector<TensorType> types;
  for (const Value* v : node.results) types.push_back(v ? mapped(v->type, map) : TensorType{});
  Node* const made = to.add_node(*node.op, std::move(args), std::move(types));
  made->source = node.source;
  for (size_t i = 0; i < node.results.size(); ++i) {
    if (node.results[i])
      values[node.results[i]] = made->results[i];
    else
      made->results[i] = nullptr;
  }
  return made;
}

}  // namespace vesta::graph
