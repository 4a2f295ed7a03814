// Plans of matrix products whose sums a CPU keeps in registers (schedule/register_tiles.h).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "graph/graph.h"
#include "schedule/plan.h"
#include "schedule/register_tiles.h"

namespace vesta::schedule {
namespace {

Target target_of(int64_t vector_bytes, int threads) {
  Target t;
  t.vector_bytes = vector_bytes;
  t.avx512 = vector_bytes == 64;
  t.fma = true;
  t.threads = threads;
  return t;
}

Plan plan_of(const std::string& text, const Target& target) {
  const auto g = graph::parse(text);
  graph::verify(*g);
  Options options;
  options.target = target;
  return make_plan(*g, options);
}

std::string linear(int64_t rows, int64_t columns, int64_t inner) {
  return fmt::format(R"(
input %0 : f32[{0}, {2}] = argument "x"
input %1 : f32[{1}, {2}] = parameter "w"
%2 : f32[{0}, {1}] = aten::linear(%0, %1, none)
output %2
)",
                     rows, columns, inner);
}

const KernelStep* only_kernel(const Plan& plan) {
  return plan.steps.size() == 1 ? std::get_if<KernelStep>(&plan.steps[0]) : nullptr;
}

TEST(Registers, EveryCoreHasWork) {
  for (const int threads : {1, 2, 4, 16, 64})
    for (const int64_t vector_bytes : {32, 64})
      for (const auto& [rows, columns, inner] : std::vector<std::array<int64_t, 3>>{
               {128, 768, 768}, {1024, 3072, 768}, {16, 768, 3072}, {768, 64, 128}, {8, 128256, 64}}) {
        const Plan plan = plan_of(linear(rows, columns, inner), target_of(vector_bytes, threads));
        const KernelStep* const k = only_kernel(plan);
        ASSERT_TRUE(k) << rows << " x " << columns;
        ASSERT_GT(k->kernel->registers.rows, 0);
        EXPECT_EQ(k->flops, 2 * rows * columns * inner);
        // No thread has much more to do than the others.
        const int64_t items = k->items.constant(), waves = (items + threads - 1) / threads;
        EXPECT_GE(static_cast<double>(items) / static_cast<double>(waves * threads), rows * columns < 50000 ? 0.4 : 0.7)
            << rows << " x " << columns << ", " << items << " items for " << threads;
      }
}

TEST(Registers, SlicesDependOnTheInnerSizeAlone) {
  for (const int threads : {1, 16})
    for (const int64_t rows : {8, 500}) {
      const Plan plan = plan_of(linear(rows, 96, 1100), target_of(64, threads));
      ASSERT_TRUE(only_kernel(plan));
      EXPECT_EQ(only_kernel(plan)->kernel->registers.slice, 512);
    }
}

TEST(Registers, WhatACpuDoesNotCompute) {
  const auto is_call = [](const std::string& text, const Target& target) {
    const Plan plan = plan_of(text, target);
    return plan.steps.size() == 1 && std::holds_alternative<ExternStep>(plan.steps[0]);
  };
  EXPECT_FALSE(is_call(linear(64, 64, 64), target_of(64, 2)));
  EXPECT_TRUE(is_call(linear(64, 64, 64), target_of(16, 2)));
  Target no_fma = target_of(32, 2);
  no_fma.fma = false;
  EXPECT_TRUE(is_call(linear(64, 64, 64), no_fma));
  EXPECT_TRUE(is_call(linear(2, 64, 64), target_of(64, 2)));
  EXPECT_TRUE(is_call(linear(64, 8, 64), target_of(64, 2)));
  EXPECT_TRUE(is_call(linear(64, 64, 8), target_of(64, 2)));
}

// A bias and an activation are in the product's kernel; a reduction of its rows is a kernel of its own.
TEST(Registers, WithWhatFollows) {
  const Target target = target_of(64, 2);
  const Plan active = plan_of(R"(
input %0 : f32[2, 10, 64] = argument "x"
input %1 : f32[96, 64] = parameter "w"
input %2 : f32[96] = parameter "b"
%3 : f32[2, 10, 96] = aten::linear(%0, %1, %2)
%4 : f32[2, 10, 96] = aten::relu(%3)
output %4
)",
                              target);
  ASSERT_TRUE(only_kernel(active));
  EXPECT_GT(only_kernel(active)->kernel->registers.rows, 0);
  const Plan soft = plan_of(R"(
input %0 : f32[40, 64] = argument "x"
input %1 : f32[96, 64] = parameter "w"
%2 : f32[40, 96] = aten::linear(%0, %1, none)
%3 : f32[40] = aten::amax(%2, [1])
output %2
output %3
)",
                            target);
  ASSERT_EQ(soft.steps.size(), 2u);
  ASSERT_TRUE(std::holds_alternative<KernelStep>(soft.steps[0]));
  EXPECT_GT(std::get<KernelStep>(soft.steps[0]).kernel->registers.rows, 0);
}

// The pixels of a convolution are one range of rows, and the panels of its weight one range of columns.
TEST(Registers, WindowsOfPixels) {
  const Plan plan = plan_of(R"(
input %0 : f32[2, 9, 9, 32] = argument "x"
input %1 : f32[2, 3, 3, 32, 48] = parameter "panels"
%2 : f32[2, 4, 9, 32, 3]{2592, 576, 32, 1, 288} = aten::unfold(%0, 1, 3, 2)
%3 : f32[2, 4, 4, 32, 3, 3]{2592, 576, 64, 1, 288, 32} = aten::unfold(%2, 2, 3, 2)
%4 : f32[2, 4, 4, 3, 3, 32]{2592, 576, 64, 288, 32, 1} = aten::permute(%3, [0, 1, 2, 4, 5, 3])
%5 : f32[2, 4, 4, 96] = vesta::packed_linear(%4, %1, none)
%6 : f32[2, 4, 4, 96] = aten::relu(%5)
output %6
)",
                            target_of(64, 2));
  const KernelStep* const k = only_kernel(plan);
  ASSERT_TRUE(k);
  const loops::Kernel& kernel = *k->kernel;
  ASSERT_GT(kernel.registers.rows, 0);
  EXPECT_FALSE(kernel.registers.packs_rows);
  EXPECT_FALSE(kernel.registers.packs_columns);
  std::vector<int64_t> extents;
  for (const loops::Range& r : kernel.ranges) extents.push_back(r.extent.constant());
  EXPECT_EQ(extents, (std::vector<int64_t>{2 * 4 * 4, 96, 3, 3 * 32}));
  EXPECT_EQ(k->flops, 2 * 32 * 96 * 9 * 32);
}

// Heads are products of their own, which a kernel reads where they lie: no copy turns them.
TEST(Registers, BatchedProducts) {
  const auto heads = [](int64_t rows, int64_t keys, const char* follows) {
    return fmt::format(R"(
input %0 : f32[{0}, 96] = argument "q"
input %1 : f32[{1}, 96] = argument "k"
%2 : f32[{0}, 3, 32] = aten::view(%0, [{0}, 3, 32])
%3 : f32[3, {0}, 32]{{32, 96, 1}} = aten::permute(%2, [1, 0, 2])
%4 : f32[{1}, 3, 32] = aten::view(%1, [{1}, 3, 32])
%5 : f32[3, 32, {1}]{{32, 1, 96}} = aten::permute(%4, [1, 2, 0])
%6 : f32[3, {0}, {1}] = aten::bmm(%3, %5)
{2})",
                       rows, keys, follows);
  };
  for (const int64_t rows : {4, 40}) {
    const std::string follows = fmt::format("%7 : f32[3, {}, 50] = aten::relu(%6)\noutput %7\n", rows);
    const Plan plan = plan_of(heads(rows, 50, follows.c_str()), target_of(64, 2));
    const KernelStep* const k = only_kernel(plan);
    ASSERT_TRUE(k);
    EXPECT_GT(k->kernel->registers.rows, 0);
    EXPECT_FALSE(k->kernel->registers.packs_rows);
    EXPECT_EQ(k->flops, 2 * 3 * rows * 50 * 32);
  }
  // Three rows of each head are few, although there are nine in all.
  const Plan few = plan_of(heads(3, 50, "output %6\n"), target_of(64, 2));
  EXPECT_TRUE(std::any_of(few.steps.begin(), few.steps.end(),
                          [](const Step& s) { return std::holds_alternative<ExternStep>(s); }));
}

// A kernel has one product: what reads two of them is part of the second one's kernel.
TEST(Registers, TwoProductsAreTwoKernels) {
  const Plan plan = plan_of(R"(
input %0 : f32[40, 64] = argument "x"
input %1 : f32[96, 64] = parameter "gate"
input %2 : f32[96, 64] = parameter "up"
%3 : f32[40, 96] = aten::linear(%0, %1, none)
%4 : f32[40, 96] = aten::silu(%3)
%5 : f32[40, 96] = aten::linear(%0, %2, none)
%6 : f32[40, 96] = aten::mul.Tensor(%4, %5)
output %6
)",
                            target_of(64, 2));
  ASSERT_EQ(plan.steps.size(), 2u);
  for (const auto& s : plan.steps) {
    ASSERT_TRUE(std::holds_alternative<KernelStep>(s));
    EXPECT_GT(std::get<KernelStep>(s).kernel->registers.rows, 0);
  }
}

// 100 columns in panels of 48: the kernel reads whole panels, and stores what there is.
TEST(Registers, TheLastPanelIsFilledUp) {
  const Plan plan = plan_of(R"(
input %0 : f32[40, 64] = argument "x"
input %1 : f32[3, 64, 48] = parameter "panels"
%2 : f32[40, 100] = vesta::packed_linear(%0, %1, none, 100)
output %2
)",
                            target_of(64, 2));
  ASSERT_TRUE(only_kernel(plan));
  const loops::Kernel& kernel = *only_kernel(plan)->kernel;
  EXPECT_EQ(kernel.registers.columns, 48);
  EXPECT_FALSE(kernel.registers.packs_columns);
  EXPECT_TRUE(kernel.ranges[1].extent.is_constant(100));
}

// Panels as no tile has them are packed.
TEST(Registers, PanelsOfOtherSizes) {
  for (const int64_t panel : {20, 40, 100}) {
    const Plan plan = plan_of(fmt::format(R"(
input %0 : f32[40, 64] = argument "x"
input %1 : f32[3, 64, {0}] = parameter "panels"
%2 : f32[40, {1}] = vesta::packed_linear(%0, %1, none, {1})
output %2
)",
                                          panel, 3 * panel - 5),
                              target_of(64, 2));
    ASSERT_TRUE(only_kernel(plan));
    EXPECT_TRUE(only_kernel(plan)->kernel->registers.packs_columns);
  }
}

// The result is transposed, so the rows are outputs of the layer. The 16 of a panel lie together, and the panels,
// although there are more of them, lie apart.
TEST(Registers, RowsArePackedWhereTheirElementsLieTogether) {
  const Plan plan = plan_of(R"(
input %0 : f32[2, 384, 512] = argument "x"
input %1 : f32[30, 384, 16] = parameter "panels"
%2 : f32[2, 512, 384]{196608, 1, 512} = aten::permute(%0, [0, 2, 1])
%3 : f32[2, 512, 480] = vesta::packed_linear(%2, %1, none, 480)
%4 : f32[2, 480, 512]{245760, 1, 480} = aten::permute(%3, [0, 2, 1])
%5 : f32[2, 480, 512] = aten::clone(%4, memory_format=format.contiguous)
output %5
)",
                            target_of(32, 2));
  ASSERT_TRUE(only_kernel(plan));
  const loops::Kernel& kernel = *only_kernel(plan)->kernel;
  EXPECT_TRUE(kernel.registers.packs_rows);
  EXPECT_TRUE(kernel.ranges[static_cast<size_t>(kernel.vector) - 1].extent.is_constant(16));
}

TEST(Registers, ProductsOfBf16) {
  Target target = target_of(64, 2);
  target.features = "+avx512bf16,-amx-bf16";
  EXPECT_TRUE(computes_in_registers(DType::BF16, 64, 768, 768, target));
  EXPECT_TRUE(computes_in_registers(DType::F16, 64, 768, 768, target));  // operands are converted to F32
  EXPECT_FALSE(computes_in_registers(DType::F64, 64, 768, 768, target));
  EXPECT_EQ(panel_of(DType::BF16, 64, 768, 768, 768, target), 48);
  const std::string linear_of_bf16 = R"(
input %0 : bf16[64, 768] = argument "x"
input %1 : bf16[16, 384, 48, 2] = parameter "panels"
%2 : bf16[64, 768] = vesta::packed_linear(%0, %1, none)
output %2
)";
  const Plan plan = plan_of(linear_of_bf16, target);
  ASSERT_TRUE(only_kernel(plan));
  const loops::Kernel& kernel = *only_kernel(plan)->kernel;
  EXPECT_TRUE(kernel.registers.pairs);
  EXPECT_FALSE(kernel.registers.packs_rows || kernel.registers.packs_columns);
  EXPECT_TRUE(kernel.ranges.back().extent.is_constant(768));  // the pairs and their elements are one range
}

// Registers for matrices have panels of one size, whatever the rows, and instructions of as many steps as fit the inner
// space.
TEST(Registers, ProductsInMatrices) {
  Target target = target_of(64, 2);
  target.features = "+amx-bf16,+amx-tile,+avx512bf16";
  const auto kernel = [&](int64_t rows, int64_t columns, int64_t inner) {
    const Plan plan = plan_of(fmt::format(R"(
input %0 : bf16[{0}, {2}] = argument "x"
input %1 : bf16[{3}, {4}, 32, 2] = parameter "panels"
%2 : bf16[{0}, {1}] = vesta::packed_linear(%0, %1, none)
output %2
)",
                                          rows, columns, inner, columns / 32, inner / 2),
                              target);
    EXPECT_TRUE(only_kernel(plan)) << rows << " x " << columns;
    return only_kernel(plan)->kernel;
  };
  for (const int64_t rows : {4, 16, 40, 128, 1000}) {
    EXPECT_TRUE(computes_in_registers(DType::BF16, rows, 768, 768, target));
    EXPECT_EQ(panel_of(DType::BF16, rows, 768, 768, 768, target), 32);
    const auto k = kernel(rows, 768, 768);
    EXPECT_EQ(k->registers.depth, 16);
    EXPECT_EQ(k->registers.columns, 32);
    EXPECT_EQ(k->registers.rows % 16, 0);
    EXPECT_FALSE(k->registers.packs_columns);
  }
  EXPECT_EQ(kernel(64, 64, 72)->registers.depth, 12);    // 36 steps
  EXPECT_EQ(kernel(64, 64, 198)->registers.depth, 11);   // 99 steps
  EXPECT_EQ(kernel(64, 64, 1058)->registers.depth, 16);  // 529 steps are 23 times 23
  EXPECT_TRUE(kernel(64, 3072, 768)->registers.packs_rows);
  EXPECT_FALSE(kernel(64, 64, 768)->registers.packs_rows);
  // With one thread, large products whose columns would be packed in each call are calls.
  const std::string in_no_panels = R"(
input %0 : bf16[128, 768] = argument "x"
input %1 : bf16[768, 768] = argument "w"
%2 : bf16[128, 768] = aten::mm(%0, %1)
output %2
)";
  EXPECT_TRUE(only_kernel(plan_of(in_no_panels, target)));
  target.threads = 1;
  EXPECT_FALSE(only_kernel(plan_of(in_no_panels, target)));
  kernel(128, 768, 768);
  const Plan of_floats = plan_of(linear(64, 768, 768), target);
  ASSERT_TRUE(only_kernel(of_floats));
  EXPECT_EQ(only_kernel(of_floats)->kernel->registers.depth, 0);
}

TEST(Registers, Panels) {
  const Target wide = target_of(64, 2), narrow = target_of(32, 2);
  const auto panel = [](int64_t columns, const Target& target) {
    return panel_of(DType::F32, 64, columns, 768, 768, target);
  };
  EXPECT_EQ(panel(768, wide), 48);
  EXPECT_EQ(panel(512, wide), 32);  // 64 would be hardly faster, and layers of one panel share kernels
  EXPECT_EQ(panel(40, wide), 48);   // eight columns are filled up
  EXPECT_EQ(panel(768, narrow), 16);
  EXPECT_EQ(panel(24, narrow), 24);
  EXPECT_EQ(panel_of(DType::F32, 196, 512, 512, 512, wide), 32);   // 14 tiles of 14 rows
  EXPECT_EQ(panel_of(DType::F32, 196, 512, 512, 1024, wide), 64);  // 14 rows would share one set of the cache
}

}  // namespace
}  // namespace vesta::schedule
