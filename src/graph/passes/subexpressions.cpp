// Keeps only the first of nodes with equal operator, arguments and types. Random nodes and nodes with effects stay.
#include <algorithm>
#include <bit>
#include <vector>

#include "base/hash_mix.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {
namespace {

struct ArgHash {
  size_t operator()(None) const { return 1; }
  size_t operator()(const Value* v) const { return std::hash<const void*>{}(v); }
  size_t operator()(bool b) const { return b; }
  size_t operator()(Expr e) const { return e.hash(); }
  size_t operator()(double d) const { return std::bit_cast<uint64_t>(d); }
  size_t operator()(std::complex<double> c) const { return mix_hash((*this)(c.real()), (*this)(c.imag())); }
  size_t operator()(const std::string& s) const { return std::hash<std::string>{}(s); }
  size_t operator()(Device d) const { return static_cast<size_t>(d.type) * 257 + static_cast<size_t>(d.index + 1); }
  template <class E>
    requires std::is_enum_v<E>
  size_t operator()(E e) const {
    return static_cast<size_t>(e);
  }
  template <class T>
  size_t operator()(const std::vector<T>& list) const {
    size_t h = list.size();
    for (const auto& x : list) h = mix_hash(h, (*this)(static_cast<T>(x)));
    return h;
  }
};

size_t hash_node(const Node& n) {
  size_t h = std::hash<const void*>{}(n.op);
  for (const Arg& a : n.args()) h = mix_hash(h, mix_hash(a.index(), std::visit(ArgHash{}, a)));
  return h;
}

// Compares bits: == would merge -0.0 with 0.0 and would keep equal NaNs apart.
bool same(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }
bool same(const Arg& a, const Arg& b) {
  if (a.index() != b.index()) return false;
  if (const double* x = std::get_if<double>(&a)) return same(*x, std::get<double>(b));
  if (const auto* x = std::get_if<std::complex<double>>(&a)) {
    const auto y = std::get<std::complex<double>>(b);
    return same(x->real(), y.real()) && same(x->imag(), y.imag());
  }
  if (const auto* x = std::get_if<std::vector<double>>(&a)) {
    const auto& y = std::get<std::vector<double>>(b);
    return std::equal(x->begin(), x->end(), y.begin(), y.end(), [](double p, double q) { return same(p, q); });
  }
  return a == b;
}

bool same(const Node& a, const Node& b) {
  if (a.op != b.op || a.prepacked != b.prepacked || a.results.size() != b.results.size()) return false;
  for (size_t i = 0; i < a.args().size(); ++i)
    if (!same(a.args()[i], b.args()[i])) return false;
  for (size_t i = 0; i < a.results.size(); ++i) {
    if (!a.results[i] != !b.results[i]) return false;
    if (a.results[i] && a.results[i]->type != b.results[i]->type) return false;
  }
  return true;
}

// The nodes so far, by hash: a table with at least one free place after each run of taken ones.
class NodeTable {
 public:
  explicit NodeTable(size_t nodes) : places_(std::bit_ceil(2 * nodes + 1)) {}

  // The node that is the same as n; nullptr: none.
  Node* find(size_t hash, const Node& n) const {
    for (size_t i = first(hash); places_[i].node; i = next(i))
      if (places_[i].hash == hash && same(*places_[i].node, n)) return places_[i].node;
    return nullptr;
  }
  void insert(size_t hash, Node* n) {
    size_t i = first(hash);
    while (places_[i].node) i = next(i);
    places_[i] = {hash, n};
  }

 private:
  struct Place {
    size_t hash = 0;
    Node* node = nullptr;
  };
  size_t first(size_t hash) const { return hash & (places_.size() - 1); }
  size_t next(size_t i) const { return (i + 1) & (places_.size() - 1); }
  std::vector<Place> places_;
};

}  // namespace

bool merge_subexpressions(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  NodeTable known(graph.node_count());
  graph.for_each_node([&](Node* n) {
    if (!is_pure(*n) && !n->prepacked) return;
    const size_t h = hash_node(*n);
    if (Node* const first = known.find(h, *n)) {
      bool whole = true;  // both may be outputs, which are tensors of their own
      for (size_t i = 0; i < n->results.size(); ++i) {
        if (!n->results[i]) continue;
        whole = whole && rewriter.can_replace(n->results[i], first->results[i]);
      }
      if (!whole || !rewriter.may()) return;
      for (size_t i = 0; i < n->results.size(); ++i)
        if (n->results[i]) rewriter.substitute(n->results[i], first->results[i]);
      first->raises = first->raises && n->raises;
      graph.erase(n);
      return;
    }
    known.insert(h, n);
  });
  return rewriter.changed();
}

}  // namespace vesta::graph
