// Convolutions of 1 x 1 pixels as products (graph/passes/pointwise_convolutions.cpp).
#include <fmt/format.h>

#include "pass_text.h"

namespace vesta::graph::testing_text {
namespace {

const auto kKernels = [](int64_t rows, int64_t, int64_t) { return rows >= 4; };

// A convolution of these sizes, and a node that reads it.
std::string convolution(const char* x, const char* w, const char* y, const char* rest) {
  return fmt::format(R"(
input %0 : {} = argument "x"
input %1 : {} = parameter "w"
input %2 : f32[16] = parameter "b"
%3 : {} = aten::convolution(%0, %1, %2, {})
%4 : {} = aten::relu(%3)
output %4
)",
                     x, w, y, rest, y);
}

constexpr const char* kPlain = "[1, 1], [0, 0], [1, 1], false, [0, 0], 1";
constexpr const char* kX = "f32[2, 8, 5, 5]{200, 1, 40, 8}";
constexpr const char* kW = "f32[16, 8, 1, 1]";
constexpr const char* kY = "f32[2, 16, 5, 5]{400, 1, 80, 16}";

TEST(PointwiseConvolutions, InChannelsLastAreProductsOfPixels) {
  expect_pass(write_pointwise_convolutions, convolution(kX, kW, kY, kPlain), R"(
input %0 : f32[2, 8, 5, 5]{200, 1, 40, 8} = argument "x"
input %1 : f32[16, 8, 1, 1] = parameter "w"
input %2 : f32[16] = parameter "b"
%3 : f32[2, 5, 5, 8] = aten::permute(%0, [0, 2, 3, 1])
prepacked %4 : f32[16, 8] = aten::view(%1, [16, 8])
%5 : f32[2, 5, 5, 16] = aten::linear(%3, %4, %2)
%6 : f32[2, 16, 5, 5]{400, 1, 80, 16} = aten::permute(%5, [0, 3, 1, 2])
%7 : f32[2, 16, 5, 5]{400, 1, 80, 16} = aten::relu(%6)
output %7
)",
              {}, DeviceType::CPU, kKernels);
}

TEST(PointwiseConvolutions, OfOnePixelAreProductsOfOneRow) {
  expect_pass(write_pointwise_convolutions, convolution("f32[1, 8, 1, 1]", kW, "f32[1, 16, 1, 1]", kPlain), R"(
input %0 : f32[1, 8, 1, 1] = argument "x"
input %1 : f32[16, 8, 1, 1] = parameter "w"
input %2 : f32[16] = parameter "b"
%3 : f32[1, 8] = aten::view(%0, [1, 8])
prepacked %4 : f32[16, 8] = aten::view(%1, [16, 8])
%5 : f32[1, 16] = aten::linear(%3, %4, %2)
%6 : f32[1, 16, 1, 1] = aten::view(%5, [1, 16, 1, 1])
%7 : f32[1, 16, 1, 1] = aten::relu(%6)
output %7
)",
              {}, DeviceType::CPU, kKernels);
}

TEST(PointwiseConvolutions, OthersStayCalls) {
  const auto unchanged = [](const std::string& text) {
    SCOPED_TRACE(text);
    expect_unchanged(write_pointwise_convolutions, text, {}, DeviceType::CPU, kKernels);
  };
  unchanged(convolution("f32[2, 8, 5, 5]", kW, "f32[2, 16, 5, 5]", kPlain));  // pixels of one channel are adjacent
  unchanged(convolution(kX, kW, "f32[2, 16, 3, 3]{144, 1, 48, 16}", "[2, 2], [0, 0], [1, 1], false, [0, 0], 1"));
  unchanged(convolution(kX, kW, "f32[2, 16, 7, 7]{784, 1, 112, 16}", "[1, 1], [1, 1], [1, 1], false, [0, 0], 1"));
  unchanged(convolution(kX, "f32[16, 4, 1, 1]", kY, "[1, 1], [0, 0], [1, 1], false, [0, 0], 2"));
  unchanged(convolution(kX, "f32[16, 8, 3, 3]", kY, "[1, 1], [1, 1], [1, 1], false, [0, 0], 1"));
  unchanged(convolution("f32[3, 8, 1, 1]", kW, "f32[3, 16, 1, 1]", kPlain));  // few rows
  // Without kernels for products.
  expect_unchanged(write_pointwise_convolutions, convolution(kX, kW, kY, kPlain));
}

}  // namespace
}  // namespace vesta::graph::testing_text
