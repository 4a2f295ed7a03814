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

TEST(Tangents, GetCopiesWhereAGradientNeedsItsOwnMemory) {
  const auto half = parse(kHalf);
  for (Output& o : half->outputs) own_gradient(*half, o);
  verify(*half);
  for (const Output& o : half->outputs) EXPECT_EQ(o.kind, OutputKind::Fresh);
  EXPECT_EQ(half->outputs[0].value->producer->op->name, "aten::clone");
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

TEST(Segments, ForMemoryAreOneWhereThereIsLittle) {
  EXPECT_EQ(segments_for_memory(*layers(12, 1 << 10), 12, 6), std::vector<int>(12, 0));
}

}  // namespace
}  // namespace vesta::graph
