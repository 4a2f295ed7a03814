// Backward halves for other tangents, gradients that show a tangent, and halves in segments.
#include "graph/tangents.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "graph/segments.h"
#include "graph/text.h"

namespace vesta::graph {
namespace {

// The gradients of cat([x[:2], y]) and of a scaled z.
constexpr const char* kHalf = R"(
input %0 : f32[4, 3] = argument "saved"
input %1 : f32[5, 3] = argument "tangent0"
input %2 : f32[4, 3] = argument "tangent1"
%3 : f32[2, 3] = aten::slice.Tensor(%1, 0, 0, 2)
%4 : f32[4, 3] = aten::mul.Tensor(%2, %0)
output view of input 1 : f32[2, 3] offset 0 as %3
output input 2 as %2
output %4
)";

TEST(Tangents, ThatAreMissingMoveTheOthers) {
  const auto half = parse(kHalf);
  const auto g = for_tangents(*half, std::array{TangentState::Undefined, TangentState::Dense});
  verify(*g);
  EXPECT_EQ(g->inputs.size(), 2);
  EXPECT_EQ(g->outputs[0].kind, OutputKind::None);
  EXPECT_EQ(g->outputs[1].kind, OutputKind::Input);
  EXPECT_EQ(g->outputs[1].alias, 1);
}

TEST(Tangents, ThatAreExpandedHaveViewsOfOneElement) {
  const auto half = parse(kHalf);
  const auto g = for_tangents(*half, std::array{TangentState::Expanded, TangentState::Dense});
  verify(*g);
  EXPECT_EQ(g->outputs[0].kind, OutputKind::InputView);
  for (const Expr& stride : g->outputs[0].type.strides) EXPECT_TRUE(stride.is_constant(0));
}

// A chain of layers, each with a saved value and a gradient of so many floats.
std::unique_ptr<Graph> layers(int count, int64_t floats) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("input %{} : f32[{}] = argument \"s\"\n", i, floats);
  text += fmt::format("input %{} : f32[{}] = argument \"tangent0\"\n", count, floats);
  int last = count, next = count + 1;
  std::string outputs;
  for (int i = 0; i < count; ++i, next += 2) {
    text += fmt::format("%{} : f32[{}] = aten::mul.Tensor(%{}, %{})\n", next, floats, last, i);
    text += fmt::format("%{} : f32[{}] = aten::sin(%{})\n", next + 1, floats, next);
    outputs += fmt::format("output %{}\n", next);
    last = next + 1;
  }
  return parse(text + outputs);
}

TEST(Segments, ForMemoryGiveAndFreeAboutTheSame) {
  const auto half = layers(12, int64_t{1} << 20);  // 4 MiB each
  const std::vector<int> found = segments_for_memory(*half, 12, 6);
  EXPECT_EQ(found, (std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}));
  for (const Segment& s : divide(*half, found)) verify(*s.graph);
}

TEST(Segments, ShowTangentsOfWhichGradientsAreViews) {
  const auto half = parse(R"(input %0 : f32[4, 6] = argument "saved0"
input %1 : f32[4, 6] = argument "tangent0"
input %2 : f32[3] = argument "tangent1"
%3 : f32[4, 6] = aten::mul.Tensor(%1, %0)
%4 : f32[4, 2]{6, 1} = aten::slice.Tensor(%1, 1, 2, 4)
%5 : f32[2, 4]{1, 6} = aten::permute(%4, [1, 0])
%6 : f32[4, 6] = aten::sin(%3)
output %3
output view of input 1 : f32[2, 4]{1, 6} offset 2 as %5
output %6
output input 2 as %2
output view of input 1 : f32[4, 2]{6, 1} offset 2 as %4
)");
  const std::vector<Segment> found = divide(*half, std::array{0, 1, 1, 1, 0});
  ASSERT_EQ(found.size(), 2);
  for (const Segment& s : found) verify(*s.graph);
  const auto& first = *found[0].graph;
  ASSERT_EQ(first.outputs.size(), 2);
  EXPECT_EQ(first.outputs[1].kind, OutputKind::InputView);
  EXPECT_EQ(found[0].reads.at(static_cast<size_t>(first.outputs[1].alias)), 1);
  const auto& second = *found[1].graph;
  ASSERT_EQ(second.outputs.size(), 3);
  EXPECT_EQ(second.outputs[0].kind, OutputKind::InputView);
  EXPECT_EQ(to_string(second.outputs[0].storage_offset), "2");
  EXPECT_EQ(found[1].reads.at(static_cast<size_t>(second.outputs[0].alias)), 1);
  EXPECT_EQ(second.outputs[2].kind, OutputKind::Input);
  EXPECT_EQ(found[1].reads.at(static_cast<size_t>(second.outputs[2].alias)), 2);
  EXPECT_EQ(found[1].gives, (std::vector<uint32_t>{5, 6, 2}));
}

TEST(Segments, TheLastOneGivesWhatShowsATangent) {
  const auto half = parse(R"(input %0 : f32[2048, 4096] = argument "saved0"
input %1 : f32[2048, 4096] = argument "saved1"
input %2 : f32[2048, 4096] = argument "tangent0"
%3 : f32[2048, 4096] = aten::mul.Tensor(%2, %0)
%4 : f32[2048, 4096] = aten::mul.Tensor(%3, %1)
output input 2 as %2
output %3
output %4
)");
  EXPECT_EQ(segments_for_memory(*half, 2, 2), (std::vector<int>{1, 0, 1}));
  EXPECT_EQ(segments_of(*half, 1, 1), (std::vector<int>{1, 0, 1}));
}

TEST(Segments, ForMemoryAreOneWhereGradientsAreViewsOfTangents) {
  const auto half = parse(R"(input %0 : f32[4096, 4096] = argument "tangent0"
%1 : f32[2048, 4096] = aten::slice.Tensor(%0, 0, 0, 2048)
%2 : f32[2048, 4096] = aten::slice.Tensor(%0, 0, 2048, 4096)
output view of input 0 : f32[2048, 4096] offset 0 as %1
output view of input 0 : f32[2048, 4096] offset 8388608 as %2
)");
  EXPECT_EQ(segments_for_memory(*half, 0, 6), (std::vector<int>{0, 0}));
}

TEST(Segments, ForMemoryAreOneWhereThereIsLittle) {
  EXPECT_EQ(segments_for_memory(*layers(12, 1 << 10), 12, 6), std::vector<int>(12, 0));
}

}  // namespace
}  // namespace vesta::graph
