// Nodes that stay ATen calls when they fuse with nothing, because ATen is as fast as a kernel.
#include <algorithm>

#include "graph/rules/body_walk.h"
#include "graph/rules/complex.h"
#include "graph/rules/operands.h"
#include "schedule/fusion.h"

namespace vesta::schedule {

using graph::Node;
using graph::ScalarRef;
using graph::Value;

namespace {

// Whether a body has a primitive for which generated code calls a scalar function for each element.
class ScalarCalls final : public graph::BodyWalk {
 public:
  bool any = false;

 private:
  void visit(Prim p, DType t) override {
    any |= t == DType::F64 && (p == Prim::Erfinv || p == Prim::Lgamma || p == Prim::Digamma);
    any |= is_integral(t) && p == Prim::Pow;
  }
};

bool calls_scalar_functions(const Node& node) {
  if (graph::is_complex_node(node)) return false;
  const graph::NodeArgs args = node.named();
  std::vector<ScalarRef> x;
  for (const auto& o : graph::pointwise_types(*node.op->row, args).operands) x.push_back({0, o.to});
  ScalarCalls calls;
  node.op->row->body(calls, args, x);
  return calls.any;
}

// Along the last dimension ATen's loops over rows check each index as they use it. A kernel reads all indices twice,
// unless it adds atomically: then it checks and adds in one pass.
bool moves_along_rows(const Node& node, const Limits&) {
  const std::optional<size_t> d = loops::constant_dim(node);
  return d && *d + 1 == node.results[0]->type.dim();
}
bool sums_along_rows(const Node& node, const Limits& limits) {
  const bool sums = node.op->schema.index_of("reduce") < 0 || node.named().string("reduce") == "sum";
  return sums && !limits.adds_atomically && moves_along_rows(node, limits);
}
bool always(const Node&, const Limits&) { return true; }

// A kernel computes indices and weights again for each line and gathers twice; ATen computes them once for all lines.
bool stretches_lines(const Node& node, const Limits& limits) {
  const graph::TensorType& to = node.results[0]->type;
  const graph::TensorType& from = node.input(0)->type;
  return hint_numel(to.sizes) >= limits.many_elements && hint(to.sizes.back()) > hint(from.sizes.back());
}

// Operators that ATen computes as fast as a kernel when the function says so.
struct AloneRow {
  const char* name;
  bool (*is_as_fast)(const Node& node, const Limits& limits);
};
constexpr AloneRow kRows[] = {
    {"aten::gather", moves_along_rows},           {"aten::scatter.src", always},
    {"aten::scatter_add", sums_along_rows},       {"aten::scatter_reduce.two", sums_along_rows},
    {"aten::upsample_linear1d", stretches_lines},
};

bool is_as_fast_alone(const Node& node, const Limits& limits) {
  if (node.op->family() == graph::Family::Pointwise) return calls_scalar_functions(node);
  return std::ranges::any_of(
      kRows, [&](const AloneRow& row) { return node.op->name == row.name && row.is_as_fast(node, limits); });
}

// A few elements made from nothing: the allocation is the work, and a graph around it adds to that.
bool is_small_factory(const Node& node, const Limits& limits) {
  return node.op->family() == graph::Family::Factory && hint_numel(node.results[0]->type.sizes) <= limits.few_elements;
}

}  // namespace

std::vector<const Node*> Fusion::alone() const {
  std::vector<const Node*> found;
  const auto alive = std::ranges::count_if(groups, [](const FusionGroup& g) { return g.alive; });
  for (const FusionGroup& g : groups) {
    if (!options_.fuse || !g.alive || !g.fusable || g.prepacked || g.nodes.size() != 1) continue;
    const SchedulerNode& u = nodes[g.nodes[0]];
    if ((u.kind != SchedulerNodeKind::Map && u.kind != SchedulerNodeKind::Update) || u.on_input) continue;
    if (!is_as_fast_alone(*u.node, limits_) && !(alive == 1 && is_small_factory(*u.node, limits_))) continue;
    bool reads_memory = true;
    u.node->for_each_input([&](const Value* v) {
      const int p = scheduler_node_of(base_of(v));
      reads_memory &= p < 0 || !nodes[p].inlined;
    });
    if (reads_memory) found.push_back(u.node);
  }
  return found;
}

}  // namespace vesta::schedule
