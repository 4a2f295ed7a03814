// Parts of a graph as graphs of their own.
#include "graph/part.h"

#include <gtest/gtest.h>

namespace {

using namespace vesta;

constexpr const char* kWhole = R"(
symbol s0 = 6, at least 2
source s0 = size 0 of input 0
input %0 : f32[s0, 4] = argument "x"
input %1 : f32[4] = parameter "w"
%2 : f32[s0, 4] = aten::exp(%0)
%3 : f32[s0, 4] = aten::mul.Tensor(%2, %1)
%4 : f32[s0*4] = aten::view(%3, [s0*4])
%5 : f32[s0*4] = aten::neg(%4)
%6 : f32[s0, 4] = aten::cos(%2)
output %5
output %6
)";

graph::Part part(std::set<uint32_t> values) {
  const auto whole = graph::parse(kWhole);
  graph::Part out = graph::part_of(*whole, values);
  graph::verify(*out.graph);
  return out;
}

std::string text(const graph::Graph& g) { return graph::print(*graph::parse(graph::print(g))); }

TEST(GraphPart, HasItsOwnInputsAndOutputsForTheHintsOfSizes) {
  const graph::Part p = part({3});
  EXPECT_EQ(text(*p.graph), R"(input %0 : f32[6, 4] = argument "%2"
input %1 : f32[4] = argument "%1"
%2 : f32[6, 4] = aten::mul.Tensor(%0, %1)
output %2
)");
  EXPECT_EQ(p.inputs, (std::vector<uint32_t>{2, 1}));
  EXPECT_EQ(p.outputs, (std::vector<uint32_t>{3}));
}

TEST(GraphPart, TakesWhatLiesBetweenItsNodes) {
  const graph::Part p = part({2, 5});
  EXPECT_EQ(text(*p.graph), R"(input %0 : f32[6, 4] = argument "%0"
input %1 : f32[4] = argument "%1"
%2 : f32[6, 4] = aten::exp(%0)
%3 : f32[6, 4] = aten::mul.Tensor(%2, %1)
%4 : f32[24] = aten::view(%3, [24])
%5 : f32[24] = aten::neg(%4)
output %2
output %5
)");
  EXPECT_EQ(p.outputs, (std::vector<uint32_t>{2, 5}));
}

}  // namespace
