// Products of one input that become one product with weights side by side.
#include "graph/passes/passes.h"

#include <fmt/format.h>

#include "pass_text.h"

namespace vesta::graph {
namespace {

using namespace testing_text;

// Queries, keys and values; a product of another input stays.
const std::string kProjections = R"(
input %0 : f16[2, 5, 64]@cuda:0 = argument "x"
input %1 : f16[32, 64]@cuda:0 = parameter "q"
input %2 : f16[16, 64]@cuda:0 = parameter "k"
input %3 : f16[16, 64]@cuda:0 = parameter "v"
%4 : f16[2, 5, 32]@cuda:0 = aten::linear(%0, %1, none)
%5 : f16[2, 5, 32]@cuda:0 = aten::tanh(%4)
%6 : f16[2, 5, 16]@cuda:0 = aten::linear(%0, %2, none)
%7 : f16[2, 5, 16]@cuda:0 = aten::linear(%0, %3, none)
%8 : f16[2, 5, 16]@cuda:0 = aten::mul.Tensor(%6, %7)
output %5
output %8
)";
constexpr int64_t kBytes = (32 + 16 + 16) * 64 * 2;

TEST(WideProducts, PutWeightsOfOneInputSideBySide) {
  expect_pass(write_wide_products, kProjections, R"(
input %0 : f16[2, 5, 64]@cuda:0 = argument "x"
input %1 : f16[32, 64]@cuda:0 = parameter "q"
input %2 : f16[16, 64]@cuda:0 = parameter "k"
input %3 : f16[16, 64]@cuda:0 = parameter "v"
prepacked %4 : f16[64, 64]@cuda:0 = aten::cat([%1, %2, %3], 0)
%5 : f16[2, 5, 64]@cuda:0 = aten::linear(%0, %4, none)
%6 : f16[2, 5, 32]{320, 64, 1}@cuda:0 = aten::slice.Tensor(%5, 2, 0, 32)
%7 : f16[2, 5, 32]@cuda:0 = aten::clone(%6, memory_format=format.contiguous)
%8 : f16[2, 5, 16]{320, 64, 1}@cuda:0 = aten::slice.Tensor(%5, 2, 32, 48)
%9 : f16[2, 5, 16]@cuda:0 = aten::clone(%8, memory_format=format.contiguous)
%10 : f16[2, 5, 16]{320, 64, 1}@cuda:0 = aten::slice.Tensor(%5, 2, 48, 64)
%11 : f16[2, 5, 16]@cuda:0 = aten::clone(%10, memory_format=format.contiguous)
%12 : f16[2, 5, 32]@cuda:0 = aten::tanh(%7)
%13 : f16[2, 5, 16]@cuda:0 = aten::mul.Tensor(%9, %11)
output %12
output %13
)",
              {.packed_weights = kBytes}, DeviceType::CUDA);
}

TEST(WideProducts, NeedABoundOfCopiesThatAllowsThem) {
  expect_unchanged(write_wide_products, kProjections, {}, DeviceType::CUDA);
  expect_unchanged(write_wide_products, kProjections, {.packed_weights = 0}, DeviceType::CUDA);
  expect_unchanged(write_wide_products, kProjections, {.packed_weights = kBytes - 1}, DeviceType::CUDA);
  expect_unchanged(write_wide_products, kProjections, {.packed_weights = kBytes, .numerics = "eager"},
                   DeviceType::CUDA);
}

// Gate and up of a large model are faster one after the other.
TEST(WideProducts, LeaveProductsThatFillAGpu) {
  const auto text = [](int rows) {
    return fmt::format(R"(
input %0 : f16[{0}, 64]@cuda:0 = argument "x"
input %1 : f16[16384, 64]@cuda:0 = parameter "gate"
input %2 : f16[16384, 64]@cuda:0 = parameter "up"
%3 : f16[{0}, 16384]@cuda:0 = aten::linear(%0, %1, none)
%4 : f16[{0}, 16384]@cuda:0 = aten::linear(%0, %2, none)
output %3
output %4
)",
                       rows);
  };
  const Options options{.packed_weights = 1 << 30};
  expect_unchanged(write_wide_products, text(64), options, DeviceType::CUDA);
  const auto narrower = parse(text(63));
  EXPECT_TRUE(write_wide_products(*narrower, {.options = options, .device = DeviceType::CUDA}));
}

TEST(WideProducts, HaveOneBiasSideBySide) {
  expect_pass(write_wide_products, R"(
symbol s0 = 4, at least 2
source s0 = size 0 of input 0
input %0 : f32[s0, 8]@cuda:0 = argument "x"
input %1 : f32[4, 8]@cuda:0 = parameter "w1"
input %2 : f32[4]@cuda:0 = parameter "b1"
input %3 : f32[6, 8]@cuda:0 = parameter "w2"
input %4 : f32[6]@cuda:0 = parameter "b2"
%5 : f32[s0, 4]@cuda:0 = aten::linear(%0, %1, %2)
%6 : f32[s0, 6]@cuda:0 = aten::linear(%0, %3, %4)
output %5
output %6
)",
              R"(
symbol s0 = 4, at least 2
source s0 = size 0 of input 0
input %0 : f32[s0, 8]@cuda:0 = argument "x"
input %1 : f32[4, 8]@cuda:0 = parameter "w1"
input %2 : f32[4]@cuda:0 = parameter "b1"
input %3 : f32[6, 8]@cuda:0 = parameter "w2"
input %4 : f32[6]@cuda:0 = parameter "b2"
prepacked %5 : f32[10, 8]@cuda:0 = aten::cat([%1, %3], 0)
prepacked %6 : f32[10]@cuda:0 = aten::cat([%2, %4], 0)
%7 : f32[s0, 10]@cuda:0 = aten::linear(%0, %5, %6)
%8 : f32[s0, 4]{10, 1}@cuda:0 = aten::slice.Tensor(%7, 1, 0, 4)
%9 : f32[s0, 4]@cuda:0 = aten::clone(%8, memory_format=format.contiguous)
%10 : f32[s0, 6]{10, 1}@cuda:0 = aten::slice.Tensor(%7, 1, 4, 10)
%11 : f32[s0, 6]@cuda:0 = aten::clone(%10, memory_format=format.contiguous)
output %9
output %11
)",
              {.packed_weights = 1 << 20}, DeviceType::CUDA);
}

TEST(WideProducts, JoinConstantWeightsAlone) {
  const auto text = [](const std::string& weight, const std::string& input, const std::string& bias) {
    return R"(
input %0 : f32[4, 8]@cuda:0 = argument "x"
input %1 : f32[4, 8]@cuda:0 = argument "y"
input %2 : f32[4, 8]@cuda:0 = parameter "w1"
input %3 : f32[4, 8]@cuda:0 = )" +
           weight + R"( "w2"
input %4 : f32[4]@cuda:0 = parameter "b"
%5 : f32[4, 4]@cuda:0 = aten::linear(%0, %2, none)
%6 : f32[4, 4]@cuda:0 = aten::linear()" +
           input + ", %3, " + bias + ")\noutput %5\noutput %6\n";
  };
  const Options options{.packed_weights = 1 << 20};
  for (const std::string& unlike :
       {text("argument", "%0", "none"), text("parameter", "%1", "none"), text("parameter", "%0", "%4")})
    expect_unchanged(write_wide_products, unlike, options, DeviceType::CUDA);
}

}  // namespace
}  // namespace vesta::graph
