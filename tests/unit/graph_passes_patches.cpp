// Convolutions of patches as products (graph/passes/patch_products.cpp).
#include <fmt/format.h>

#include "pass_text.h"

namespace vesta::graph::testing_text {
namespace {

const auto kKernels = [](DType, int64_t rows, int64_t, int64_t) { return rows >= 4; };

// The first layer of a vision transformer: windows of `stride` pixels, and a reader of the sequence.
std::string patches(const char* stride, const char* reader = "aten::add.Tensor(%5, %5)", const char* output = "%6") {
  return fmt::format(R"(
input %0 : f32[2, 3, 8, 12] = argument "x"
input %1 : f32[16, 3, 4, 4] = parameter "w"
input %2 : f32[16] = parameter "b"
%3 : f32[2, 16, 2, 3] = aten::convolution(%0, %1, %2, {}, [0, 0], [1, 1], false, [0, 0], 1)
%4 : f32[2, 16, 6] = aten::view(%3, [2, 16, 6])
%5 : f32[2, 6, 16]{{96, 1, 6}} = aten::permute(%4, [0, 2, 1])
%6 : f32[2, 6, 16]{{96, 1, 6}} = {}
output {}
)",
                     stride, reader, output);
}

TEST(PatchProducts, AreALinearLayer) {
  expect_pass(write_patch_products, patches("[4, 4]"), R"(
input %0 : f32[2, 3, 8, 12] = argument "x"
input %1 : f32[16, 3, 4, 4] = parameter "w"
input %2 : f32[16] = parameter "b"
%3 : f32[2, 3, 2, 4, 3, 4] = aten::view(%0, [2, 3, 2, 4, 3, 4])
%4 : f32[2, 2, 3, 3, 4, 4]{288, 48, 4, 96, 12, 1} = aten::permute(%3, [0, 2, 4, 1, 3, 5])
%5 : f32[2, 2, 3, 3, 4, 4] = aten::clone(%4, memory_format=format.contiguous)
%6 : f32[2, 6, 48] = aten::view(%5, [2, 6, 48])
prepacked %7 : f32[16, 48] = aten::view(%1, [16, 48])
%8 : f32[2, 6, 16] = aten::linear(%6, %7, %2)
%9 : f32[2, 6, 16]{96, 1, 6} = aten::add.Tensor(%8, %8)
output %9
)",
              {}, DeviceType::CPU, kKernels);
}

TEST(PatchProducts, StayConvolutionsWhereTheyAreNone) {
  const auto expect_call = [](const std::string& text) {
    expect_unchanged(write_patch_products, text, {}, DeviceType::CPU, kKernels);
  };
  expect_unchanged(write_patch_products, patches("[4, 4]"), {}, DeviceType::CPU);  // kernels compute no product
  expect_call(patches("[4, 4]", "aten::add.Tensor(%5, %5)", "%5"));                // the caller sees the strides
  expect_call(patches("[4, 4]", "aten::view(%5, [2, 6, 16])"));                    // so may a view
  std::string text = patches("[4, 4]");
  text.replace(text.find("output %6"), 9, "output %6\noutput %3");
  expect_call(text);  // pixels are read in another order, too
  // An image of so many rows, and the rows and columns of windows `stride` pixels apart.
  const auto windows = [](int image, int stride, int rows, int columns) {
    return fmt::format(R"(
input %0 : f32[2, 3, {0}, 12] = argument "x"
input %1 : f32[16, 3, 4, 4] = parameter "w"
%3 : f32[2, 16, {2}, {3}] = aten::convolution(%0, %1, none, [{1}, {1}], [0, 0], [1, 1], false, [0, 0], 1)
%4 : f32[2, 16, {4}] = aten::view(%3, [2, 16, {4}])
%5 : f32[2, {4}, 16]{{{5}, 1, {4}}} = aten::permute(%4, [0, 2, 1])
%6 : f32[2, {4}, 16]{{{5}, 1, {4}}} = aten::neg(%5)
output %6
)",
                       image, stride, rows, columns, rows * columns, rows * columns * 16);
  };
  expect_call(windows(8, 2, 3, 5));  // windows overlap
  expect_call(windows(9, 4, 2, 3));  // a row of pixels is in no window
}

}  // namespace
}  // namespace vesta::graph::testing_text
