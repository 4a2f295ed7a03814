#include <algorithm>
#include <unordered_set>

#include "base/check.h"
#include "graph/graph.h"

namespace vesta::graph {
namespace {

bool fits(const SchemaArg& s, const Arg& a) {
  if (is_none(a))
    return s.optional || s.type == ArgType::OptionalTensor || s.type == ArgType::Generator || s.has_default;
  auto holds = [&]<class... T>(std::type_identity<T>...) { return (std::holds_alternative<T>(a) || ...); };
  using std::type_identity;
  switch (s.type) {
    case ArgType::Tensor:
    case ArgType::OptionalTensor: return holds(type_identity<Value*>{});
    case ArgType::TensorList:
    case ArgType::OptionalTensorList: return holds(type_identity<ValueList>{});
    case ArgType::Int: return holds(type_identity<Expr>{}, type_identity<DType>{}, type_identity<bool>{});
    case ArgType::IntList: return holds(type_identity<IntList>{});
    case ArgType::Float: return holds(type_identity<double>{}, type_identity<Expr>{});
    case ArgType::FloatList: return holds(type_identity<std::vector<double>>{});
    case ArgType::Bool: return holds(type_identity<bool>{});
    case ArgType::BoolList: return holds(type_identity<std::vector<bool>>{});
    case ArgType::Scalar:
      return holds(type_identity<bool>{}, type_identity<Expr>{}, type_identity<double>{},
                   type_identity<std::complex<double>>{});
    case ArgType::ScalarList:
      return holds(type_identity<IntList>{}, type_identity<std::vector<double>>{}, type_identity<std::vector<bool>>{});
    case ArgType::String: return holds(type_identity<std::string>{});
    case ArgType::DType: return holds(type_identity<DType>{});
    case ArgType::Layout: return holds(type_identity<Layout>{});
    case ArgType::Device: return holds(type_identity<Device>{});
    case ArgType::MemoryFormat: return holds(type_identity<MemoryFormat>{});
    case ArgType::Generator:
    case ArgType::Storage: return false;
    case ArgType::Other: return true;
  }
  return false;
}

class Verifier {
 public:
  explicit Verifier(const Graph& g)
      : g_(g), defined_(g.value_count()), prepacked_(g.value_count()), users_(g.value_count()) {}

  void run() {
    symbols();
    for (const Input& i : g_.inputs) {
      require(i.value && !i.value->producer, "an input has no value, or one that a node produces");
      define(i.value);
      prepacked_[i.value->id] = i.kind == InputKind::Parameter;
      type(i.value->type);
    }
    const Node* last = nullptr;
    size_t count = 0;
    for (const Node* n = g_.first(); n; n = n->next) {
      node_ = n;
      require(n->prev == last, "the list of nodes is not doubly linked");
      node(*n);
      last = n;
      ++count;
    }
    node_ = nullptr;
    require(last == g_.last() && count == g_.node_count(), "the list of nodes has a wrong end or count");
    use_lists();
    outputs();
    mutations();
    guards();
  }

 private:
  template <class... Args>
  void require(bool condition, fmt::format_string<Args...> rule, Args&&... args) const {
    if (condition) [[likely]]
      return;
    const std::string broken = fmt::format(rule, std::forward<Args>(args)...);
    VESTA_CHECK(false, "graph: {}{}", node_ ? describe(*node_) : "", broken);
  }

  static std::string describe(const Node& n) {
    std::string s = "node ";
    for (const Value* v : n.results)
      if (v) s += fmt::format("%{} ", v->id);
    s += n.op ? n.op->name : "without an operator";
    if (!n.source.empty()) s += fmt::format(" from {}", n.source);
    return s + ": ";
  }

  void define(const Value* v) {
    require(v->id < defined_.size(), "%{} has an id out of range", v->id);
    require(!defined_[v->id], "two values have the id %{}", v->id);
    defined_[v->id] = v;
  }
  bool is_defined(const Value* v) const { return v && v->id < defined_.size() && defined_[v->id] == v; }

  void expression(Expr e) const {
    if (e.is_constant()) return;
    require(e.node()->context == g_.context.get(), "{} is over symbols of another graph", to_string(e));
    if (sourced_.contains(e)) return;
    for (Expr s : symbols_of(e)) {
      require(s.node()->symbol_kind == SymbolKind::Size, "{} is not a size symbol", to_string(s));
      require(sourced_.contains(s), "the symbol {} has no source", to_string(s));
    }
  }

  void type(const TensorType& t) const {
    require(t.sizes.size() == t.strides.size(), "a type has {} sizes and {} strides", t.sizes.size(), t.strides.size());
    for (Expr s : t.sizes) {
      require(!s.is_constant() || s.constant() >= 0, "a size is negative");
      expression(s);
    }
    for (Expr s : t.strides) expression(s);
  }

  void symbols() {
    for (const SymbolSource& s : g_.symbols) {
      require(s.symbol.is_symbol() && s.symbol.node()->context == g_.context.get(),
              "a source of what is no symbol of this graph");
      require(s.dim >= 0 && s.input < static_cast<int>(g_.inputs.size()), "the source of {} is out of range",
              to_string(s.symbol));
      if (s.input >= 0) {
        const TensorType& t = g_.inputs[s.input].value->type;
        require(static_cast<size_t>(s.dim) < t.dim(), "the source of {} names dimension {} of a tensor of {}",
                to_string(s.symbol), s.dim, t.dim());
      }
      sourced_.insert(s.symbol);
    }
  }

  void node(const Node& n) {
    require(n.op, "it has no operator");
    const Schema& schema = n.op->schema;
    require(n.args().size() == schema.args.size(), "it has {} arguments, its schema {}", n.args().size(),
            schema.args.size());
    require(!schema.mutates() || !n.op->row, "its operator writes to an argument");
    for (size_t i = 0; i < n.args().size(); ++i) {
      require(fits(schema.args[i], n.args()[i]), "argument '{}' has a value of a wrong kind", schema.args[i].name);
      if (const Expr* e = std::get_if<Expr>(&n.args()[i])) expression(*e);
      if (const IntList* l = std::get_if<IntList>(&n.args()[i]))
        for (Expr e : *l) expression(e);
    }
    n.for_each_input([&](const Value* v) {
      require(is_defined(v), "it uses %{} before it is defined, or after its producer is gone", v ? v->id : UINT32_MAX);
      require(!n.prepacked || prepacked_[v->id],
              "it is a prepacked constant, but %{} is no Parameter and not prepacked", v->id);
      users_[v->id].push_back(&n);
    });
    const bool list = schema.returns.size() == 1 && schema.returns[0].type == ArgType::TensorList;
    require(list || n.results.size() == schema.returns.size(), "it has {} results, its schema {}", n.results.size(),
            schema.returns.size());
    for (size_t i = 0; i < n.results.size(); ++i) {
      const Value* v = n.results[i];
      if (!v) continue;
      require(v->producer == &n && v->result == i, "%{} does not know that it is result {}", v->id, i);
      define(v);
      prepacked_[v->id] = n.prepacked;
      type(v->type);
    }
    require(!n.prepacked || !n.op->has(kRandom), "a random number is no prepacked constant");
  }

  void use_lists() {
    for (const Value* v : defined_) {
      if (!v) continue;
      std::vector<const Node*> known(v->users.begin(), v->users.end());
      std::vector<const Node*>& seen = users_[v->id];
      std::sort(known.begin(), known.end());
      std::sort(seen.begin(), seen.end());
      require(known == seen, "%{} is used {} times, its list of users has {}", v->id, seen.size(), known.size());
    }
  }

  void outputs() {
    for (size_t i = 0; i < g_.outputs.size(); ++i) {
      const Output& o = g_.outputs[i];
      require(!o.value || is_defined(o.value), "output {} is a value of no node", i);
      switch (o.kind) {
        case OutputKind::Fresh:
          require(o.value, "output {} has no value", i);
          require(o.hidden || i == 0 || !g_.outputs[i - 1].hidden, "output {} follows a hidden one", i);
          break;
        case OutputKind::Input:
        case OutputKind::InputView:
          require(o.alias >= 0 && o.alias < static_cast<int>(g_.inputs.size()), "output {} is of no input", i);
          break;
        case OutputKind::OutputView:
          require(o.alias >= 0 && o.alias < static_cast<int>(g_.outputs.size()) &&
                      g_.outputs[o.alias].kind == OutputKind::Fresh,
                  "output {} views no fresh output", i);
          break;
        case OutputKind::Integer: expression(o.integer); break;
        case OutputKind::None: break;
      }
      if (o.kind == OutputKind::InputView || o.kind == OutputKind::OutputView) {
        type(o.type);
        expression(o.storage_offset);
        require(!o.value || (o.value->type.sizes == o.type.sizes && o.value->type.dtype == o.type.dtype),
                "output {} is a view that differs in type from its value", i);
      }
    }
  }

  void mutations() {
    for (const Mutation& m : g_.mutations) {
      require(m.input >= 0 && m.input < static_cast<int>(g_.inputs.size()), "a mutation of no input");
      require(is_defined(m.value), "input {} is mutated to a value of no node", m.input);
      const TensorType& t = g_.inputs[m.input].value->type;
      require(m.value->type.dtype == t.dtype && m.value->type.sizes == t.sizes,
              "input {} is mutated to a value of another type", m.input);
    }
  }

  void guards() {
    for (const Guard& g : g_.guards) {
      expression(g.left);
      expression(g.right);
      const int64_t l = hint(g.left), r = hint(g.right);
      const bool holds = g.relation == Relation::Equal      ? l == r
                         : g.relation == Relation::NotEqual ? l != r
                         : g.relation == Relation::Less     ? l < r
                                                            : l >= r;
      require(holds, "the guard on {} and {} does not hold for the sizes seen", to_string(g.left), to_string(g.right));
    }
  }

  const Graph& g_;
  const Node* node_ = nullptr;
  std::vector<const Value*> defined_;
  std::vector<bool> prepacked_;
  std::vector<std::vector<const Node*>> users_;
  std::unordered_set<Expr> sourced_;
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).run(); }

}  // namespace vesta::graph
