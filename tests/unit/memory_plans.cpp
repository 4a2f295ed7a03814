// The estimates of the memory of graphs and plans hold.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/graph.h"
#include "memory_heap.h"
#include "schedule/plan.h"

namespace vesta {
namespace {

// `n` nodes of one kind, each a line with {0}: its value, {1}: the value before it.
std::string chain(std::string_view line, int n) {
  std::string text = "input %0 : f32[64, 64] = argument \"x\"\ninput %1 : f32[64, 64] = parameter \"w\"\n";
  for (int i = 2; i < n + 2; ++i) text += fmt::format(fmt::runtime(line), i, i == 2 ? 0 : i - 1) + "\n";
  return text + fmt::format("output %{}\n", n + 1);
}

class PlanMemory : public ::testing::TestWithParam<const char*> {};

TEST_P(PlanMemory, EstimatesHoldAndAreNear) {
  if (!testing::heap_is_measured()) GTEST_SKIP() << "a sanitizer has its own heap";
  for (const int n : {100, 1000, 4000}) {
    const std::string text = chain(GetParam(), n);
    graph::parse(text);  // what the process needs once
    const testing::Heap of_graph;
    const auto graph = graph::parse(text);
    const int64_t graph_bytes = of_graph.now();
    schedule::Options options;
    options.target = host_target();
    const testing::Heap of_plan;
    const schedule::Plan plan = schedule::make_plan(*graph, options);
    const int64_t peak = of_plan.peak(), kept = of_plan.now();
    const schedule::PlanMemory estimate = schedule::plan_memory(*graph);
    EXPECT_LE(graph_bytes, graph->bytes()) << n;
    EXPECT_GE(graph_bytes, graph->bytes() / 4) << n;
    EXPECT_LE(peak, estimate.peak) << n;
    EXPECT_GE(peak, estimate.peak / 12) << n;  // fused nodes take a fifth of what others take
    EXPECT_LE(kept, estimate.kept) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Chains, PlanMemory,
                         ::testing::Values("%{} : f32[64, 64] = aten::mm(%{}, %1)",
                                           "%{} : f32[64, 64] = aten::sin(%{})",
                                           "%{} : f32[64, 64] = aten::add.Tensor(%{}, %1)",
                                           "%{} : f32[64, 64] = aten::_softmax(%{}, 1, false)"));

}  // namespace
}  // namespace vesta
