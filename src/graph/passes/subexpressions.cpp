// Keeps only the first of nodes with equal operator, arguments and types. Random nodes and nodes with effects stay.
#include <algorithm>
#include <bit>
#include <vector>

#include "graph/node_equality.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {
namespace {

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
    const size_t h = hash_of(*n);
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
