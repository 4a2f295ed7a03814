// Plans of depthwise convolutions (vesta::depthwise_convolution).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/graph.h"
#include "schedule/plan.h"

namespace vesta::schedule {
namespace {

std::vector<const KernelStep*> kernels_of(const std::string& text) {
  const auto g = graph::parse(text);
  graph::verify(*g);
  Options options;
  options.target.vector_bytes = 64;
  options.target.avx512 = options.target.fma = true;
  static std::vector<Plan> plans;  // the steps live in them
  plans.push_back(make_plan(*g, options));
  std::vector<const KernelStep*> out;
  for (const auto& s : plans.back().steps)
    if (const auto* k = std::get_if<KernelStep>(&s)) out.push_back(k);
  return out;
}

// `before` and `after` are nodes around the convolution %4 of %3.
std::string depthwise(int64_t channels, const std::string& before, const std::string& after) {
  return fmt::format(R"(
input %0 : f32[1, {0}, 9, 9]{{{1}, 1, {2}, {0}}} = argument "x"
input %1 : f32[3, 3, {0}] = parameter "taps"
input %2 : f32[{0}] = parameter "b"
%3 : f32[1, {0}, 9, 9]{{{1}, 1, {2}, {0}}} = {3}
%4 : f32[1, {0}, 9, 9]{{{1}, 1, {2}, {0}}} = vesta::depthwise_convolution(%3, %1, %2, [3, 3], [1, 1], [1, 1], [1, 1])
{4}
)",
                     channels, 81 * channels, 9 * channels, before, after);
}

// What comes before would be computed once for each tap.
TEST(Windows, AreReadFromMemory) {
  const auto kernels = kernels_of(depthwise(32, "aten::relu(%0)", "output %4"));
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0]->ops, std::vector<std::string_view>{"aten::relu"});
}

// What follows is part of the kernel; a sum over the pixels is not.
TEST(Windows, AreNotPartsOfReductions) {
  const std::string active = "%5 : f32[1, 32, 9, 9]{2592, 1, 288, 32} = aten::hardswish(%4)\n";
  const auto fused = kernels_of(depthwise(32, "aten::relu(%0)", active + "output %5"));
  ASSERT_EQ(fused.size(), 2u);
  EXPECT_EQ(fused[1]->ops, (std::vector<std::string_view>{"vesta::depthwise_convolution", "aten::hardswish"}));
  const std::string sum = "%6 : f32[1, 32] = aten::sum.dim_IntList(%5, [2, 3])\n";
  for (const char* outputs : {"output %5\noutput %6", "output %6"}) {
    const auto summed = kernels_of(depthwise(32, "aten::relu(%0)", active + sum + outputs));
    ASSERT_GE(summed.size(), 3u);
    EXPECT_EQ(summed[1]->ops, (std::vector<std::string_view>{"vesta::depthwise_convolution", "aten::hardswish"}));
  }
}

// The taps of one part of the channels stay in the level 1 cache for all pixels.
TEST(Windows, ManyChannelsAreCutIntoParts) {
  for (const int64_t channels : {32, 960, 1000}) {
    const auto kernels = kernels_of(depthwise(channels, "aten::relu(%0)", "output %4"));
    ASSERT_EQ(kernels.size(), 2u);
    const loops::Kernel& k = *kernels[1]->kernel;
    const int64_t part = k.ranges[static_cast<size_t>(k.vector)].extent.constant();
    if (channels == 960) {
      EXPECT_EQ(part, 320);  // 9 taps and the bias of so many channels are 12.5 KiB
      EXPECT_EQ(k.ranges[0].extent.constant(), 3);
    } else {
      EXPECT_EQ(part, channels);  // few, or no whole vectors
    }
  }
}

}  // namespace
}  // namespace vesta::schedule
