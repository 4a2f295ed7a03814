// One node to scalars: graph text in, dag text out.
#include <gtest/gtest.h>

#include "base/split.h"
#include "dag_reference.h"
#include "graph/graph.h"
#include "graph/ops/rows.h"
#include "loops/index_tensors.h"
#include "loops/lower.h"
#include "loops/ops/rows.h"

namespace vesta::loops {
namespace {

struct InputsInMemory final : BufferLookup {
  const graph::Graph& graph;
  std::vector<MemoryRef> held_values;
  const graph::Node* at_its_index = nullptr;
  IndexMap place;

  explicit InputsInMemory(const graph::Graph& g) : graph(g) {
    for (size_t i = 0; i < g.inputs.size(); ++i) {
      const graph::TensorType& t = g.inputs[i].value->type;
      held_values.push_back({{static_cast<int>(i), t.dtype, graph::numel(t), element_size(t.dtype)}, t.strides, 0});
    }
  }
  const MemoryRef* memory_of(const graph::Value* v) const override {
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      if (graph.inputs[i].value == v) return &held_values[i];
    }
    return nullptr;
  }
  const IndexMap* index_map(const graph::Node* node) const override { return node == at_its_index ? &place : nullptr; }
};

// The dag that stores the graph's output, one range a dimension; a scan's dimension is the inner one.
std::string lowered(const std::string& text) {
  const auto g = graph::parse(text);
  const graph::Value* out = g->outputs[0].value;
  InputsInMemory places(*g);
  Dag dag(g->context);
  Lowering lowering(dag, places);
  std::vector<Expr> index;
  std::optional<size_t> inner;
  if (out->producer->op->family() == graph::Family::Scan) inner = scan_shape(*out->producer)->dim;
  for (size_t d = 0; d < out->type.dim(); ++d) {
    index.push_back(g->context->loop_symbol("i" + std::to_string(d), out->type.sizes[d]));
  }
  for (bool now : {false, true}) {
    for (size_t d = 0; d < index.size(); ++d) {
      if ((inner == d) != now) continue;
      dag.ranges().push_back({index[d], out->type.sizes[d], now ? RangeKind::Inner : RangeKind::Parallel});
    }
  }
  if (inner) {
    places.at_its_index = out->producer;
    places.place.operand = index;
  }
  MemoryRef to{
      {static_cast<int>(g->inputs.size()), out->type.dtype, graph::numel(out->type), element_size(out->type.dtype)},
      out->type.strides,
      0};
  dag.store(to.buffer, offset_of(to, index), lowering.element(out, index));
  verify(dag);
  return print(dag);
}

void expect_what_the_family_needs(const graph::OpRow& row, std::string_view name) {
  using graph::Family;
  const LoweringRow* lowering = find_lowering(graph::get_op(name));
  const bool elements = row.family == Family::Factory || row.family == Family::Indexed;
  if (elements) {
    ASSERT_NE(lowering, nullptr) << name;
    EXPECT_NE(lowering->element, nullptr) << name;
  }
  if (!lowering) return;
  EXPECT_TRUE(elements || row.family == Family::Scatter || row.family == Family::Scan || lowering->product) << name;
  EXPECT_EQ(lowering->gathers, elements && lowering->index_checks != nullptr) << name;
  if (row.family != Family::Scatter) return;
  EXPECT_NE(lowering->update, nullptr) << name;
  EXPECT_NE(lowering->index_checks, nullptr) << name;
}

TEST(LoweringTable, HasTheRowsThatFamiliesNeed) {
  for (graph::RowFamily family : graph::kRowFamilies)
    for (const graph::OpRow& row : family())
      for (const std::string_view name : split(row.names, ' ')) expect_what_the_family_needs(row, name);
}

TEST(Lower, EmbeddingReadsTheRowItsIndexNames) {
  EXPECT_EQ(lowered(R"(input %0 : f32[100, 8] = parameter "w"
input %1 : i64[3] = argument "i"
%2 : f32[3, 8] = aten::embedding(%0, %1)
output %2
)"),
            R"(dag
range p0 parallel 3
range p1 parallel 8
buffer b0 i64[3] cpu align 8 read
buffer b1 f32[800] cpu align 4 read
buffer b2 f32[24] cpu align 4 write
  %0 = load i64 b0[p0]
  x0 = indirect %0
  %1 = load f32 b1[p1 + 8*x0]
  store f32 b2[8*p0 + p1] %1
)");
}

TEST(Lower, NegativeIndicesCountFromTheEnd) {
  EXPECT_EQ(lowered(R"(input %0 : f32[5, 8] = argument "x"
input %1 : i64[3] = argument "i"
%2 : f32[5, 3] = aten::index.Tensor(%0, [none, %1])
output %2
)"),
            R"(dag
range p0 parallel 5
range p1 parallel 3
buffer b0 i64[3] cpu align 8 read
buffer b1 f32[40] cpu align 4 read
buffer b2 f32[15] cpu align 4 write
  %0 = load i64 b0[p1]
  %1 = const i64 0
  %2 = lt i64 %0 %1
  %3 = const i64 8
  %4 = add i64 %0 %3
  %5 = select i64 %2 %4 %0
  x0 = indirect %5
  %6 = load f32 b1[8*p0 + x0]
  store f32 b2[3*p0 + p1] %6
)");
}

TEST(Lower, ReflectionIsArithmeticOnTheIndex) {
  EXPECT_EQ(lowered(R"(input %0 : f32[2, 8] = argument "x"
%1 : f32[2, 13] = aten::reflection_pad1d(%0, [2, 3])
output %1
)"),
            R"(dag
range p0 parallel 2
range p1 parallel 13
buffer b0 f32[16] cpu align 4 read
buffer b1 f32[26] cpu align 4 write
  %0 = load f32 b0[-max(-max(-p1 + 2, p1 - 2) + 7, max(-p1 + 2, p1 - 2) - 7) + 8*p0 + 7]
  store f32 b1[13*p0 + p1] %0
)");
}

TEST(Lower, RunningSumsOfFloatAreKeptInDouble) {
  EXPECT_EQ(lowered(R"(input %0 : f32[4, 8] = argument "x"
%1 : f32[4, 8] = aten::cumsum(%0, 0)
output %1
)"),
            R"(dag
range p0 parallel 8
range i0 inner 4
buffer b0 f32[32] cpu align 4 read
buffer b1 f32[32] cpu align 4 write
  %0 = load f32 b0[8*i0 + p0]
  %1 = cast f64 %0
  %2 = scan f64 sum %1
  %3 = cast f32 %2
  store f32 b1[8*i0 + p0] %3
)");
}

TEST(Lower, ARunningMaximumFindsItsPlace) {
  EXPECT_EQ(lowered(R"(input %0 : f32[8] = argument "x"
%1 : f32[8], %2 : i64[8] = aten::cummax(%0, 0)
output %2
)"),
            R"(dag
range i0 inner 8
buffer b0 f32[8] cpu align 4 read
buffer b1 i64[8] cpu align 8 write
  %0 = load f32 b0[i0]
  %1 = scan f32 max %0
  %2 = eq f32 %0 %1
  %3 = isnan f32 %0
  %4 = or bool %2 %3
  %5 = index i64 [i0]
  %6 = const i64 0
  %7 = select i64 %4 %5 %6
  %8 = scan i64 max %7
  store i64 b1[i0] %8
)");
}

TEST(Lower, WholeNearestUpsamplingNeedsNoGather) {
  EXPECT_EQ(lowered(R"(input %0 : f32[1, 2, 8] = argument "x"
%1 : f32[1, 2, 24] = aten::upsample_nearest1d(%0, [24])
output %1
)"),
            R"(dag
range p0 parallel 1
range p1 parallel 2
range p2 parallel 24
buffer b0 f32[16] cpu align 4 read
buffer b1 f32[48] cpu align 4 write
  %0 = load f32 b0[((p2) // (3)) + 16*p0 + 8*p1]
  store f32 b1[48*p0 + 24*p1 + p2] %0
)");
}

TEST(Lower, PositionsAreProvedNotChecked) {
  const auto g = graph::parse(R"(input %0 : f32[100, 8] = parameter "w"
%1 : i64[16] = aten::arange.start_step(0, 16, 1)
%2 : i64[16] = aten::add.Scalar(%1, 84)
%3 : i64[16] = aten::add.Scalar(%1, 85)
%4 : f32[16, 8] = aten::embedding(%0, %2)
%5 : f32[16, 8] = aten::embedding(%0, %3)
output %4
output %5
)");
  const auto fits = index_checks(*g->outputs[0].value->producer),
             overruns = index_checks(*g->outputs[1].value->producer);
  ASSERT_EQ(fits.size(), 1u);
  EXPECT_TRUE(surely_holds(fits[0], g->context));
  EXPECT_FALSE(surely_holds(overruns[0], g->context));
}

}  // namespace
}  // namespace vesta::loops
