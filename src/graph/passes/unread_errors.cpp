// Keeps the exceptions of computations whose results are not read: eager raises them, although dead code is removed.
#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"
#include "graph/rules/integer_range.h"
#include "graph/rules/operands.h"

namespace vesta::graph {

bool may_raise(const Node& node) {
  if (node.op->has(kMayRaise)) return !reads_inside(node);
  if (!node.op->has(kIntegerByConstant)) return false;
  // A quotient of integers whose divisor may be zero.
  const DType type = pointwise_types(*node.op->row, node.named()).compute;
  return (is_integral(type) || type == DType::Bool) && !has_body_for(*node.op->row, node.named());
}

bool may_raise(std::string_view name) {
  const Op* op = find_op(name);
  return !op || !op->row || op->has(kMayRaise) || op->has(kIntegerByConstant);
}

bool keep_unread_errors(Graph& graph, const PassContext& context) {
  std::vector<bool> needed = results_of(graph);
  bool changed = false;
  for (Node* n = graph.last(); n; n = n->prev) {
    const bool read = !is_pure(*n) || std::any_of(n->results.begin(), n->results.end(),
                                                  [&](const Value* v) { return v && needed[v->id]; });
    if (!read && !may_raise(*n)) continue;
    if (!read && !n->raises) {
      if (!context.may_rewrite()) return changed;
      changed = n->raises = true;
    }
    n->for_each_input([&](const Value* v) { needed[v->id] = true; });
  }
  return changed;
}

}  // namespace vesta::graph
