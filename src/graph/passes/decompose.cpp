// Replaces each node by the simpler nodes that its row's decomposition emits, until no decomposition is left. It runs
// after the passes that recognize library operators. A decomposition returns no nodes where the whole operator is best
// as it is.
#include "base/check.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {

bool decompose_composites(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  for (Node* n = graph.first(); n;) {
    Node* next = n->next;
    if (!n->op->row || !n->op->row->decompose || n->prepacked) {
      n = next;
      continue;
    }
    if (!context.may_rewrite()) return rewriter.changed();
    Node* before = n->prev;
    Builder builder(graph, n);
    builder.source = n->source;
    const std::vector<Value*> values = n->op->row->decompose(builder, *n);
    if (values.empty()) {
      n = next;
      continue;
    }
    VESTA_CHECK(values.size() == n->results.size(), "the decomposition of {} has {} results", n->op->name,
                values.size());
    rewriter.may_have_changed();
    for (size_t i = 0; i < values.size(); ++i) {
      Value* old = n->results[i];
      if (!old || !values[i]) continue;
      VESTA_CHECK(values[i]->type.dtype == old->type.dtype && values[i]->type.sizes == old->type.sizes,
                  "the decomposition of {} changes the type of result {}", n->op->name, i);
      Value* v = values[i];
      if (rewriter.is_output(old) && !rewriter.can_replace(old, v)) v = own_copy(graph, n, v, old->type);
      rewriter.substitute(old, v);
    }
    for (Node* made = before ? before->next : graph.first(); made != n; made = made->next)
      made->raises = n->raises && may_raise(*made);
    graph.erase(n);
    n = before ? before->next : graph.first();  // the new nodes may decompose further
  }
  return rewriter.changed();
}

}  // namespace vesta::graph
