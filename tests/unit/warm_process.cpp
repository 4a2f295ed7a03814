// Built twice: with the code generator, to fill the cache, and without one, to find everything there.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>

#include "pipeline/pipeline.h"
#include "store/store.h"
#include "vesta/compile.h"

namespace {

using namespace vesta;

constexpr std::string_view kPrograms[] = {
    R"(
symbol s0 = 5, at least 2
source s0 = size 0 of input 0
input %0 : f32[s0, 8] = argument "x"
input %1 : f32[8, 3] = parameter "w"
%2 : f32[s0, 3] = aten::mm(%0, %1) @ "model.py:3"
%3 : f32[s0, 3] = aten::silu(%2) @ "model.py:4"
%4 : f32[s0, 3] = aten::exp(%3) @ "model.py:4"
output %4
)",
    R"(
input %0 : f32[64, 8] = argument "x"
input %1 : f32[8, 3] = parameter "w"
%2 : f32[64, 3] = aten::mm(%0, %1)
%3 : f32[64, 3] = aten::softmax.int(%2, -1)
%4 : f32[64, 3] = aten::exp(%3)
output %3
output %4
)"};

// The option `cache` of the C++ entry point: the next process finds what this one compiles, unless it is off.
TEST(WarmProcess, TheDoorsOption) {
  const auto f = [](const at::Tensor& x) { return at::exp(at::sin(x)) + 1; };
  const at::Tensor x = at::randn({32, 16});
  const auto cached = vesta::compile(f);
  EXPECT_TRUE(at::allclose(cached(x), f(x)));
  ASSERT_EQ(cached.report().variants.size(), 1U);
  EXPECT_EQ(cached.report().variants[0].cached, VESTA_WARM != 0);
#if !VESTA_WARM
  Options out;
  out.cache = false;
  const auto left_out = vesta::compile(f, out);
  EXPECT_TRUE(at::allclose(left_out(x), f(x)));
  EXPECT_FALSE(left_out.report().variants.at(0).cached);
  EXPECT_EQ(left_out.report().variants.at(0).cached_kernels, 0);
#endif
}

TEST(WarmProcess, TheSecondOneIsWithoutAGenerator) {
  const at::Tensor x = at::randn({64, 8}), w = at::randn({8, 3});
  const at::Tensor y = at::mm(x, w);
  const std::vector<std::vector<at::Tensor>> expected = {{at::exp(at::silu(y))},
                                                         {at::softmax(y, -1), at::exp(at::softmax(y, -1))}};
  for (size_t i = 0; i < std::size(kPrograms); ++i) {
    const pipeline::Result r = pipeline::compile(graph::parse(kPrograms[i]), {});
    EXPECT_EQ(r.report.cached, VESTA_WARM != 0);
    EXPECT_GE(r.report.distinct_kernels, 1);
    std::vector<c10::IValue> out;
    ASSERT_TRUE(r.executable->accepts(std::vector{x, w}, {}));
    r.executable->run(std::vector{x, w}, {}, out);
    ASSERT_EQ(out.size(), expected[i].size());
    for (size_t k = 0; k < out.size(); ++k) EXPECT_TRUE(at::allclose(out[k].toTensor(), expected[i][k]));
  }
  ASSERT_NE(store::shared(), nullptr);
  EXPECT_TRUE(store::shared()->flush(std::chrono::seconds(10)));
}

}  // namespace
