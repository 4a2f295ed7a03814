// Training of batch norms on a GPU: parts of channels, values that are computed once, small reductions together.
#include <gtest/gtest.h>

#include "cuda_plans.h"
#include "graph/passes/pass.h"

namespace vesta::schedule {
namespace {

using vesta::testing::on_device;

Plan plan_of(const std::string& text, bool decomposes = false) {
  const auto g = on_device("cuda:0", text);
  const vesta::Options user;
  if (decomposes) graph::run_passes(*g, {.options = user, .device = DeviceType::CUDA}, true);
  Options options;
  options.target = machine::cuda_target_of(90);
  return make_plan(*g, options);
}

std::vector<const loops::Kernel*> kernels_of(const Plan& plan) {
  std::vector<const loops::Kernel*> out;
  for (const Step& s : plan.steps)
    if (const auto* k = std::get_if<KernelStep>(&s)) out.push_back(k->kernel.get());
  return out;
}

std::string batch_norm(std::string_view strides) {
  return fmt::format(R"(input %0 : bf16[32, 64, 56, 56]{0}@D = argument "x" aligned 16
input %1 : bf16[64]@D = argument "weight"
input %2 : bf16[64]@D = argument "bias"
%3 : bf16[32, 64, 56, 56]{0}@D, %4 : f32[64]@D, %5 : f32[64]@D = aten::_native_batch_norm_legit.no_stats(%0, %1, %2, true, 0.1, 1e-05)
output %3
output %4
output %5
)",
                     strides);
}

// In channels-last: parts of channels, all channels, all elements. Each part is read once, by threads that have several
// channels each, and there are enough parts for every multiprocessor.
TEST(CudaBatchNorm, ChannelsLastHasParts) {
  const Plan plan = plan_of(batch_norm("{200704, 1, 3584, 64}"), true);
  const auto kernels = kernels_of(plan);
  ASSERT_EQ(kernels.size(), 3U) << print(plan);
  const loops::Kernel& parts = *kernels[0];
  ASSERT_EQ(parts.online.size(), 1U) << loops::print(parts);
  EXPECT_EQ(parts.online[0].kind, loops::OnlineKind::Squares);
  EXPECT_TRUE(parts.threads.across);
  EXPECT_EQ(parts.threads.each, 8);
  EXPECT_EQ(parts.threads.block / parts.threads.team, 8);  // 128 bytes side by side
  EXPECT_EQ(evaluate(loops::work_items(parts), [](Expr) { return int64_t{0}; }), 32 * 8 * 64);
}

TEST(CudaBatchNorm, OtherOrdersHaveNone) {
  for (const loops::Kernel* k : kernels_of(plan_of(batch_norm(""), true)))
    for (const loops::Range& r : k->ranges) EXPECT_FALSE(r.extent.is_constant(8)) << loops::print(*k);
}

// A tensor on a CPU has no parts, even in channels-last.
TEST(CudaBatchNorm, NoPartsOnACpu) {
  const auto g = on_device("cpu", batch_norm("{200704, 1, 3584, 64}"));
  const vesta::Options user;
  graph::run_passes(*g, {.options = user, .device = DeviceType::CPU}, true);
  EXPECT_EQ(graph::print(*g).find(", 8, 7, 56]"), std::string::npos) << graph::print(*g);
}

// A value of few elements is computed in the kernel before, not again for each element that it is broadcast to.
TEST(CudaBatchNorm, CoefficientsAreComputedOnce) {
  const Plan plan = plan_of(R"(input %0 : f32[40000, 256]@D = argument "x" aligned 16
%1 : f32[1, 256]@D = aten::sum.dim_IntList(%0, [0], true)
%2 : f32[1, 256]@D = aten::div.Scalar(%1, 40000)
%3 : f32[40000, 256]@D = aten::sub.Tensor(%0, %2)
output %3
)");
  const auto kernels = kernels_of(plan);
  ASSERT_GE(kernels.size(), 2U) << print(plan);
  EXPECT_EQ(loops::print(*kernels.back()).find(" div "), std::string::npos) << loops::print(*kernels.back());
}

TEST(CudaBatchNorm, SmallReductionsAreOneKernel) {
  const std::string text = R"(input %0 : f32[64, 256]@D = argument "x"
input %1 : f32[64, 256]@D = argument "y"
%2 : f32[256]@D = aten::sum.dim_IntList(%0, [0], false)
%3 : f32[256]@D = aten::sum.dim_IntList(%1, [0], false)
output %2
output %3
)";
  EXPECT_EQ(kernels_of(plan_of(text)).size(), 1U);
}

// If two kernels read a value after a cast to a wider type, the narrow value is stored.
TEST(CudaBatchNorm, NarrowValuesAreStored) {
  const Plan plan = plan_of(R"(input %0 : bf16[40000, 256]@D = argument "x" aligned 16
input %1 : bf16[40000, 256]@D = argument "y" aligned 16
%2 : bf16[40000, 256]@D = aten::add.Tensor(%0, %1)
%3 : f32[40000, 256]@D = aten::_to_copy(%2, dtype=dtype.f32)
%4 : f32[1, 256]@D = aten::sum.dim_IntList(%3, [0], true)
%5 : f32[40000, 256]@D = aten::sub.Tensor(%3, %4)
%6 : bf16[40000, 256]@D = aten::_to_copy(%5, dtype=dtype.bf16)
output %6
)");
  for (const Buffer& b : plan.buffers)
    if (b.type.dtype == DType::F32) EXPECT_LT(hint(graph::numel(b.type)), 40000 * 256) << print(plan);
}

}  // namespace
}  // namespace vesta::schedule
