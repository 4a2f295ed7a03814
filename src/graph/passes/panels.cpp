#include "graph/passes/panels.h"

#include "graph/passes/library.h"
#include "graph/rules/decompose.h"

namespace vesta::graph {

int64_t panel_budget(const Graph& graph, const PassContext& context) {
  constexpr int64_t kMost = int64_t{512} << 20;  // bytes
  return (context.options.packed_weights < 0 ? kMost : packed_budget(context)) - prepacked_bytes(graph);
}

Value* in_panels(Builder& b, Value* weight, int64_t panel) {
  const size_t inner = weight->type.dim() - 1;
  Sizes apart = weight->type.sizes;
  apart[0] = floordiv(apart[0], panel);
  apart.insert(apart.begin() + 1, Expr(panel));
  IntList order = range(2, inner + 2);
  order.insert(order.begin(), Expr(0));
  order.push_back(1);
  Node* const panels = b.node("aten::view", {weight, IntList(apart)});
  Node* const turned = b.node("aten::permute", {panels->results[0], order});
  Node* const copy = b.node("aten::clone", {turned->results[0], MemoryFormat::Contiguous});
  for (Node* n : {panels, turned, copy}) n->prepacked = true;
  return copy->results[0];
}

}  // namespace vesta::graph
