// Removes nodes whose results are not read.
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {

bool remove_dead_code(Graph& graph, const PassContext& context) {
  const std::vector<bool> kept = results_of(graph);
  bool changed = false;
  for (Node* n = graph.last(); n;) {
    Node* previous = n->prev;
    bool dead = (is_pure(*n) && !n->raises) || n->prepacked;
    for (const Value* v : n->results) dead = dead && (!v || (v->users.empty() && !kept[v->id]));
    if (dead) {
      if (!context.may_rewrite()) return changed;
      graph.erase(n);
      changed = true;
    }
    n = previous;
  }
  return changed;
}

}  // namespace vesta::graph
