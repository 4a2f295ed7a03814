// The running statistics of batch norm in a joint graph.
#include <algorithm>

#include "graph/joint.h"

namespace vesta::graph {
namespace {

// In training, the derivative of batch norm takes the running statistics and does not read them.
void drop_from_derivative(Graph& joint, Node& n) {
  if (!n.named().boolean("train")) return;
  for (const char* name : {"running_mean", "running_var"})
    joint.set_arg(&n, static_cast<size_t>(n.op->schema.index_of(name)), None{});
}

bool crosses(const Joint& joint, const Node& n) {
  return std::ranges::any_of(
      joint.crossings, [&](const Crossing& c) { return std::ranges::find(n.results, c.value) != n.results.end(); });
}

// Computes the normalized tensor, the mean and the reciprocal of the standard deviation in a node of its own, which
// takes no running statistics. Both nodes are decomposed later, and their common subexpressions are computed once.
void separate_update(Graph& graph, const Joint& joint, Node& n) {
  constexpr size_t kOthers = 3;  // the normalized tensor, the mean and the reciprocal of the standard deviation
  const auto begin = n.results.begin();
  if (!n.named().boolean("training") || std::find(begin, begin + kOthers, nullptr) != begin + kOthers) return;
  if (crosses(joint, n) || checkpoint_of(joint, *n.results[0]) >= 0) return;
  Builder b(graph, &n);
  b.source = n.source;
  const NodeArgs a = n.named();
  const Node& alone = *b.node("aten::_native_batch_norm_legit.no_stats",
                              {a.get("input"), a.get("weight"), a.get("bias"), true, a.get("momentum"), a.get("eps")});
  for (size_t i = 0; i < kOthers; ++i) graph.replace_uses(n.results[i], alone.results[i]);
}

}  // namespace

void separate_running_statistics(Graph& graph, const Joint& joint) {
  graph.for_each_node([&](Node* n) {
    if (n->op->name == "aten::native_batch_norm_backward") drop_from_derivative(graph, *n);
    if (n->op->name == "aten::_native_batch_norm_legit_functional") separate_update(graph, joint, *n);
  });
}

}  // namespace vesta::graph
