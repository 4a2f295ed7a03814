// Convolutions as products (graph/passes/convolution_products.cpp).
#include <fmt/format.h>

#include "pass_text.h"

namespace vesta::graph::testing_text {
namespace {

const auto kKernels = [](DType, int64_t rows, int64_t, int64_t) { return rows >= 4; };

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

TEST(ConvolutionProducts, InChannelsLastAreProductsOfPixels) {
  expect_pass(write_convolution_products, convolution(kX, kW, kY, kPlain), R"(
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

TEST(ConvolutionProducts, OfOnePixelAreProductsOfOneRow) {
  expect_pass(write_convolution_products, convolution("f32[1, 8, 1, 1]", kW, "f32[1, 16, 1, 1]", kPlain), R"(
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

constexpr const char* kStrided = "f32[2, 16, 3, 3]{144, 1, 48, 16}";

TEST(ConvolutionProducts, OfEverySecondPixel) {
  expect_pass(write_convolution_products, convolution(kX, kW, kStrided, "[2, 2], [0, 0], [1, 1], false, [0, 0], 1"), R"(
input %0 : f32[2, 8, 5, 5]{200, 1, 40, 8} = argument "x"
input %1 : f32[16, 8, 1, 1] = parameter "w"
input %2 : f32[16] = parameter "b"
%3 : f32[2, 5, 5, 8] = aten::permute(%0, [0, 2, 3, 1])
%4 : f32[2, 3, 5, 8]{200, 80, 8, 1} = aten::slice.Tensor(%3, 1, 0, 5, 2)
%5 : f32[2, 3, 3, 8]{200, 80, 16, 1} = aten::slice.Tensor(%4, 2, 0, 5, 2)
prepacked %6 : f32[16, 8] = aten::view(%1, [16, 8])
%7 : f32[2, 3, 3, 16] = aten::linear(%5, %6, %2)
%8 : f32[2, 16, 3, 3]{144, 1, 48, 16} = aten::permute(%7, [0, 3, 1, 2])
%9 : f32[2, 16, 3, 3]{144, 1, 48, 16} = aten::relu(%8)
output %9
)",
              {}, DeviceType::CPU, kKernels);
}

TEST(ConvolutionProducts, OthersStayCalls) {
  const auto unchanged = [](const std::string& text) {
    SCOPED_TRACE(text);
    expect_unchanged(write_convolution_products, text, {}, DeviceType::CPU, kKernels);
  };
  unchanged(convolution("f32[2, 8, 5, 5]", kW, "f32[2, 16, 5, 5]", kPlain));  // pixels of one channel are adjacent
  unchanged(convolution(kX, kW, "f32[2, 16, 7, 7]{784, 1, 112, 16}", "[1, 1], [1, 1], [1, 1], false, [0, 0], 1"));
  unchanged(convolution(kX, "f32[16, 4, 1, 1]", kY, "[1, 1], [0, 0], [1, 1], false, [0, 0], 2"));
  unchanged(convolution(kX, "f32[16, 8, 3, 3]", kY, "[1, 1], [1, 1], [1, 1], false, [0, 0], 1"));
  unchanged(convolution("f32[3, 8, 1, 1]", kW, "f32[3, 16, 1, 1]", kPlain));                       // few rows
  unchanged(convolution(kX, "f32[16, 8, 3, 3]", kY, "[1, 1], [1, 1], [1, 1], false, [0, 0], 1"));  // no panels
  // Without kernels for products.
  expect_unchanged(write_convolution_products, convolution(kX, kW, kY, kPlain));
}

const auto kPanels = [](DType, int64_t, int64_t columns, int64_t, int64_t) {
  return columns % 16 == 0 ? int64_t{16} : 0;
};

std::string after(const std::string& text, const Options& options = {}) {
  const auto g = parse(text);
  write_convolution_products(
      *g, {.options = options, .device = DeviceType::CPU, .computes_product = kKernels, .panel_of = kPanels});
  remove_dead_code(*g, {.options = options});
  verify(*g);
  return "\n" + print(*g);
}

// Windows are views of a copy with zeros around it, and the weight lies in panels.
TEST(ConvolutionProducts, OfWindows) {
  EXPECT_EQ(after(convolution(kX, "f32[16, 8, 3, 3]", kStrided, "[2, 2], [1, 1], [1, 1], false, [0, 0], 1")),
            R"(
input %0 : f32[2, 8, 5, 5]{200, 1, 40, 8} = argument "x"
input %1 : f32[16, 8, 3, 3] = parameter "w"
input %2 : f32[16] = parameter "b"
%5 : f32[2, 5, 5, 8] = aten::permute(%0, [0, 2, 3, 1])
%6 : f32[2, 7, 7, 8] = aten::constant_pad_nd(%5, [0, 0, 1, 1, 1, 1])
%7 : f32[2, 3, 7, 8, 3]{392, 112, 8, 1, 56} = aten::unfold(%6, 1, 3, 2)
%8 : f32[2, 3, 3, 8, 3, 3]{392, 112, 16, 1, 56, 8} = aten::unfold(%7, 2, 3, 2)
%9 : f32[2, 3, 3, 3, 3, 8]{392, 112, 16, 56, 8, 1} = aten::permute(%8, [0, 1, 2, 4, 5, 3])
prepacked %10 : f32[16, 3, 3, 8]{72, 3, 1, 9} = aten::permute(%1, [0, 2, 3, 1])
prepacked %11 : f32[1, 3, 3, 8, 16] = vesta::in_panels(%10, 16)
%12 : f32[2, 3, 3, 16] = vesta::packed_linear(%9, %11, %2)
%13 : f32[2, 16, 3, 3]{144, 1, 48, 16} = aten::permute(%12, [0, 3, 1, 2])
%4 : f32[2, 16, 3, 3]{144, 1, 48, 16} = aten::relu(%13)
output %4
)");
}

// Where a pixel has few channels, padding treats a row of pixels as one row of elements, so that vectors are full.
TEST(ConvolutionProducts, OfColours) {
  const char *x = "f32[2, 3, 5, 6]{90, 1, 18, 3}", *y = "f32[2, 16, 5, 6]{480, 1, 96, 16}";
  const std::string made = after(convolution(x, "f32[16, 3, 3, 3]", y, "[1, 1], [1, 1], [1, 1], false, [0, 0], 1"));
  EXPECT_NE(made.find(R"(
%6 : f32[2, 5, 18] = aten::view(%5, [2, 5, 18])
%7 : f32[2, 7, 24] = aten::constant_pad_nd(%6, [3, 3, 1, 1])
%8 : f32[2, 7, 8, 3] = aten::view(%7, [2, 7, 8, 3])
)"),
            std::string::npos)
      << made;
}

// Small operands are copied with zeros around them.
TEST(ConvolutionProducts, DepthwiseOnesAreKernels) {
  const auto depthwise = [&](const char* x, const char* y, const char* groups) {
    return after(convolution(x, "f32[16, 1, 3, 3]", y,
                             fmt::format("[1, 1], [1, 1], [1, 1], false, [0, 0], {}", groups).c_str()));
  };
  const std::string small = depthwise("f32[2, 16, 5, 5]{400, 1, 80, 16}", kY, "16");
  EXPECT_NE(small.find("aten::constant_pad_nd"), std::string::npos) << small;
  EXPECT_NE(small.find("[3, 3], [1, 1], [0, 0], [1, 1])"), std::string::npos) << small;
  EXPECT_NE(small.find("prepacked %7 : f32[3, 3, 16] = aten::clone"), std::string::npos) << small;
  const std::string large =
      depthwise("f32[2, 16, 500, 500]{4000000, 1, 8000, 16}", "f32[2, 16, 500, 500]{4000000, 1, 8000, 16}", "16");
  EXPECT_EQ(large.find("aten::constant_pad_nd"), std::string::npos) << large;
  EXPECT_NE(large.find("vesta::depthwise_convolution(%0, "), std::string::npos) << large;
  EXPECT_NE(large.find("[3, 3], [1, 1], [1, 1], [1, 1])"), std::string::npos) << large;
}

// The copy with zeros around a BF16 operand is F32; the result is BF16 without a cast, which would round before what
// follows.
TEST(ConvolutionProducts, DepthwiseOnesOfHalfTypes) {
  const std::string made = after(R"(
input %0 : bf16[2, 16, 5, 5]{400, 1, 80, 16} = argument "x"
input %1 : bf16[16, 1, 3, 3] = parameter "w"
input %2 : bf16[16] = parameter "b"
%3 : bf16[2, 16, 5, 5]{400, 1, 80, 16} = aten::convolution(%0, %1, %2, [1, 1], [1, 1], [1, 1], false, [0, 0], 16)
%4 : bf16[2, 16, 5, 5]{400, 1, 80, 16} = aten::relu(%3)
output %4
)");
  EXPECT_NE(made.find(" : f32[2, 7, 7, 16] = aten::constant_pad_nd("), std::string::npos) << made;
  EXPECT_NE(made.find("[3, 3], [1, 1], [0, 0], [1, 1], dtype=dtype.bf16)\n%4 : bf16[2, 16, 5, 5]{400, 1, 80, 16} = "
                      "aten::relu("),
            std::string::npos)
      << made;
}

TEST(ConvolutionProducts, OneDilatedWindowPerPixel) {
  const std::string made =
      after(convolution("f32[1, 32, 9, 9]{2592, 1, 288, 32}", "f32[16, 32, 3, 3]", "f32[1, 16, 5, 5]{400, 1, 80, 16}",
                        "[1, 1], [0, 0], [2, 2], false, [0, 0], 1"));
  EXPECT_NE(made.find("aten::slice.Tensor"), std::string::npos);
  EXPECT_NE(made.find("vesta::packed_linear"), std::string::npos);
  EXPECT_EQ(made.find("aten::constant_pad_nd"), std::string::npos);
}

TEST(ConvolutionProducts, WindowsThatStayCalls) {
  const auto is_call = [](const std::string& text, const Options& options = {}) {
    SCOPED_TRACE(text);
    EXPECT_NE(after(text, options).find("aten::convolution"), std::string::npos);
  };
  const char *w = "f32[16, 8, 3, 3]", *plain = "[1, 1], [1, 1], [1, 1], false, [0, 0], 1";
  is_call(convolution("f32[2, 2, 5, 5]{50, 1, 10, 2}", "f32[16, 2, 3, 3]", kY, plain));  // short runs
  is_call(convolution(kX, "f32[16, 4, 3, 3]", kY, "[1, 1], [1, 1], [1, 1], false, [0, 0], 2"));
  Options none;
  none.packed_weights = 0;
  is_call(convolution(kX, w, kY, plain), none);
  std::string argument = convolution(kX, w, kY, plain);
  argument.replace(argument.find("parameter"), 9, "argument");  // another weight in each call
  is_call(argument);
}

}  // namespace
}  // namespace vesta::graph::testing_text
