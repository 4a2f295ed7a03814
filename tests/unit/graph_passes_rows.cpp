// Products of one row as sums of products.
#include "pass_text.h"

namespace vesta::graph {
namespace {

using namespace testing_text;

const ComputesProduct kKernels = [](DType, int64_t, int64_t, int64_t) { return true; };

// The text with this device in the place of "@D".
std::string on(const char* device, std::string text) {
  for (size_t at; (at = text.find("@D")) != std::string::npos;) text.replace(at, 2, device);
  return text;
}

TEST(RowProducts, AreSumsOfProducts) {
  for (const auto& [device, name] : {std::pair(DeviceType::CPU, ""), std::pair(DeviceType::CUDA, "@cuda:0")})
    expect_pass(write_row_products, on(name, R"(
input %0 : bf16[1, 1, 64]@D = argument "x"
input %1 : bf16[32, 64]@D = parameter "w"
input %2 : bf16[32]@D = parameter "b"
%3 : bf16[1, 1, 32]@D = aten::linear(%0, %1, %2)
output %3
)"),
                on(name, R"(
input %0 : bf16[1, 1, 64]@D = argument "x"
input %1 : bf16[32, 64]@D = parameter "w"
input %2 : bf16[32]@D = parameter "b"
%3 : bf16[64]@D = aten::view(%0, [64])
%4 : f32[64]@D = aten::_to_copy(%3, dtype=dtype.f32)
%5 : f32[32, 64]@D = aten::_to_copy(%1, dtype=dtype.f32)
%6 : f32[32, 64]@D = aten::mul.Tensor(%5, %4)
%7 : f32[32, 1]@D = aten::sum.dim_IntList(%6, [1], true, dtype=dtype.f32)
%8 : f32[1, 1, 32]@D = aten::view(%7, [1, 1, 32])
%9 : f32[32]@D = aten::_to_copy(%2, dtype=dtype.f32)
%10 : f32[1, 1, 32]@D = aten::add.Tensor(%8, %9)
%11 : bf16[1, 1, 32]@D = aten::_to_copy(%10, dtype=dtype.bf16)
output %11
)"),
                {}, device, device == DeviceType::CPU ? kKernels : ComputesProduct());
}

TEST(RowProducts, OfOneRowAlone) {
  expect_unchanged(write_row_products, R"(
input %0 : bf16[2, 1, 64]@cuda:0 = argument "x"
input %1 : bf16[32, 64]@cuda:0 = parameter "w"
%2 : bf16[2, 1, 32]@cuda:0 = aten::linear(%0, %1, none)
output %2
)",
                   {}, DeviceType::CUDA);
}

// Queries are rotated, which reads other elements too, and keys go into a cache.
TEST(RowProducts, OfOneInputJoinWhereTheirReadersStayApart) {
  expect_pass(write_row_products, R"(
input %0 : f32[1, 64]@cuda:0 = argument "x"
input %1 : f32[32, 64]@cuda:0 = parameter "q"
input %2 : f32[16, 64]@cuda:0 = parameter "k"
input %3 : f32[16]@cuda:0 = parameter "b"
input %4 : f32[48, 64]@cuda:0 = parameter "gate"
%5 : f32[1, 32]@cuda:0 = aten::linear(%0, %1, none)
%6 : f32[1, 16]@cuda:0 = aten::linear(%0, %2, %3)
%7 : f32[1, 48]@cuda:0 = aten::linear(%0, %4, none)
%8 : f32[1, 16]{32, 1}@cuda:0 = aten::slice.Tensor(%5, 1, 0, 16)
%9 : f32[1, 16]@cuda:0 = aten::mul.Scalar(%8, 2)
%10 : f32[2, 8]@cuda:0 = aten::view(%6, [2, 8])
%11 : f32[2, 16]@cuda:0 = aten::cat([%10, %10], 1)
%12 : f32[1, 48]@cuda:0 = aten::silu(%7)
output %9
output %11
output %12
)",
              R"(
input %0 : f32[1, 64]@cuda:0 = argument "x"
input %1 : f32[32, 64]@cuda:0 = parameter "q"
input %2 : f32[16, 64]@cuda:0 = parameter "k"
input %3 : f32[16]@cuda:0 = parameter "b"
input %4 : f32[48, 64]@cuda:0 = parameter "gate"
%5 : f32[64]@cuda:0 = aten::view(%0, [64])
%6 : f32[48, 64]@cuda:0 = aten::cat([%1, %2], 0)
%7 : f32[48, 64]@cuda:0 = aten::mul.Tensor(%6, %5)
%8 : f32[48, 1]@cuda:0 = aten::sum.dim_IntList(%7, [1], true, dtype=dtype.f32)
%9 : f32[32, 1]@cuda:0 = aten::slice.Tensor(%8, 0, 0, 32)
%10 : f32[1, 32]@cuda:0 = aten::view(%9, [1, 32])
%11 : f32[16, 1]@cuda:0 = aten::slice.Tensor(%8, 0, 32, 48)
%12 : f32[1, 16]@cuda:0 = aten::view(%11, [1, 16])
%13 : f32[1, 16]@cuda:0 = aten::add.Tensor(%12, %3)
%14 : f32[64]@cuda:0 = aten::view(%0, [64])
%15 : f32[48, 64]@cuda:0 = aten::mul.Tensor(%4, %14)
%16 : f32[48, 1]@cuda:0 = aten::sum.dim_IntList(%15, [1], true, dtype=dtype.f32)
%17 : f32[1, 48]@cuda:0 = aten::view(%16, [1, 48])
%18 : f32[1, 16]{32, 1}@cuda:0 = aten::slice.Tensor(%10, 1, 0, 16)
%19 : f32[1, 16]@cuda:0 = aten::mul.Scalar(%18, 2)
%20 : f32[2, 8]@cuda:0 = aten::view(%13, [2, 8])
%21 : f32[2, 16]@cuda:0 = aten::cat([%20, %20], 1)
%22 : f32[1, 48]@cuda:0 = aten::silu(%17)
output %19
output %21
output %22
)",
              {}, DeviceType::CUDA);
}

TEST(RowProducts, OnACpuOnlyWhereTheElementsOfARowLieTogether) {
  expect_unchanged(write_row_products, R"(
input %0 : f32[1, 64] = argument "x"
input %1 : f32[32, 64]{1, 32} = parameter "w"
%2 : f32[1, 32] = aten::linear(%0, %1, none)
output %2
)",
                   {}, DeviceType::CPU, kKernels);
}

}  // namespace
}  // namespace vesta::graph
