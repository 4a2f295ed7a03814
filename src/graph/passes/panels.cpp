#include "graph/passes/panels.h"

#include "graph/passes/library.h"
#include "graph/rules/decompose.h"

namespace vesta::graph {

int64_t most_packed(const PassContext& context) {
  constexpr int64_t kMost = int64_t{512} << 20;  // bytes
  return std::min(packed_budget(context), context.options.packed_weights < 0 ? kMost : INT64_MAX);
}

int64_t panel_budget(const Graph& graph, const PassContext& context) {
  return most_packed(context) - prepacked_bytes(graph);
}

bool has_whole_steps(DType type, Expr elements) { return type != DType::BF16 || provably_divisible(elements, 2); }

int64_t panel_bytes(const TensorType& weight, int64_t panel) {
  const int64_t rows = weight.sizes[0].constant();
  return bytes_of(weight).value() / rows * ((rows + panel - 1) / panel * panel);
}

Arg columns_of(const TensorType& weight, int64_t panel) {
  if (weight.sizes[0].constant() % panel == 0) return None{};
  return weight.sizes[0];
}

Value* in_panels(Builder& b, Value* weight, int64_t panel) {
  Node* const n = b.node("vesta::in_panels", {weight, Expr(panel)});
  n->prepacked = true;
  return n->results[0];
}

}  // namespace vesta::graph
