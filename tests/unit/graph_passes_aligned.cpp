// Products whose operands are padded to rows of whole 16 bytes.
#include "graph/passes/passes.h"

#include <fmt/format.h>

#include "pass_text.h"

namespace vesta::graph {
namespace {

using namespace testing_text;

std::string logits(const char* dtype, int columns, const char* device = "cuda:0") {
  return fmt::format(R"(
input %0 : {0}[8, 512, 768]@{2} = argument "x"
input %1 : {0}[{1}, 768]@{2} = parameter "w"
input %2 : {0}[{1}]@{2} = parameter "b"
%3 : {0}[8, 512, {1}]@{2} = aten::linear(%0, %1, %2)
output %3
)",
                     dtype, columns, device);
}

TEST(AlignedProducts, PadColumnsOfTheResult) {
  expect_pass(align_products, logits("bf16", 50257), R"(
input %0 : bf16[8, 512, 768]@cuda:0 = argument "x"
input %1 : bf16[50257, 768]@cuda:0 = parameter "w"
input %2 : bf16[50257]@cuda:0 = parameter "b"
%3 : bf16[50264, 768]@cuda:0 = aten::constant_pad_nd(%1, [0, 0, 0, 7], 0)
%4 : bf16[50264]@cuda:0 = aten::constant_pad_nd(%2, [0, 7], 0)
%5 : bf16[8, 512, 50264]@cuda:0 = aten::linear(%0, %3, %4)
%6 : bf16[8, 512, 50257]{25735168, 50264, 1}@cuda:0 = aten::slice.Tensor(%5, 2, 0, 50257)
%7 : bf16[8, 512, 50257]@cuda:0 = aten::clone(%6, memory_format=format.contiguous)
output %7
)",
              {}, DeviceType::CUDA);
}

// The gradients of the input and of the weight of those logits.
TEST(AlignedProducts, PadWhatTheProductSumsAndItsRows) {
  expect_pass(align_products, R"(
input %0 : bf16[4096, 50257]@cuda:0 = argument "tangent"
input %1 : bf16[50257, 768]@cuda:0 = parameter "w"
input %2 : bf16[4096, 768]@cuda:0 = argument "x"
%3 : bf16[4096, 768]@cuda:0 = aten::mm(%0, %1)
%4 : bf16[50257, 4096]{1, 50257}@cuda:0 = aten::t(%0)
%5 : bf16[50257, 768]@cuda:0 = aten::mm(%4, %2)
output %3
output %5
)",
              R"(
input %0 : bf16[4096, 50257]@cuda:0 = argument "tangent"
input %1 : bf16[50257, 768]@cuda:0 = parameter "w"
input %2 : bf16[4096, 768]@cuda:0 = argument "x"
%3 : bf16[4096, 50264]@cuda:0 = aten::constant_pad_nd(%0, [0, 7, 0, 0], 0)
%4 : bf16[50264, 768]@cuda:0 = aten::constant_pad_nd(%1, [0, 0, 0, 7], 0)
%5 : bf16[4096, 768]@cuda:0 = aten::mm(%3, %4)
%6 : bf16[50257, 4096]{1, 50257}@cuda:0 = aten::t(%0)
%7 : bf16[4096, 50257]@cuda:0 = aten::t(%6)
%8 : bf16[4096, 50264]@cuda:0 = aten::constant_pad_nd(%7, [0, 7, 0, 0], 0)
%9 : bf16[50264, 4096]{1, 50264}@cuda:0 = aten::t(%8)
%10 : bf16[50264, 768]@cuda:0 = aten::mm(%9, %2)
%11 : bf16[50257, 768]@cuda:0 = aten::slice.Tensor(%10, 0, 0, 50257)
output %5
output %11
)",
              {}, DeviceType::CUDA);
}

// Batches are one matrix in memory, so that one kernel pads it for both products.
TEST(AlignedProducts, PadBatchesAsAMatrix) {
  expect_pass(align_products, R"(
input %0 : bf16[8, 512, 50257]@cuda:0 = argument "tangent"
input %1 : bf16[768, 50257]{1, 768}@cuda:0 = argument "w"
%2 : bf16[8, 512, 768]@cuda:0 = aten::linear(%0, %1)
output %2
)",
              R"(
input %0 : bf16[8, 512, 50257]@cuda:0 = argument "tangent"
input %1 : bf16[768, 50257]{1, 768}@cuda:0 = argument "w"
%2 : bf16[4096, 50257]@cuda:0 = aten::view(%0, [4096, 50257])
%3 : bf16[4096, 50264]@cuda:0 = aten::constant_pad_nd(%2, [0, 7, 0, 0], 0)
%4 : bf16[8, 512, 50264]@cuda:0 = aten::view(%3, [8, 512, 50264])
%5 : bf16[50257, 768]@cuda:0 = aten::t(%1)
%6 : bf16[50264, 768]@cuda:0 = aten::constant_pad_nd(%5, [0, 0, 0, 7], 0)
%7 : bf16[768, 50264]{1, 768}@cuda:0 = aten::t(%6)
%8 : bf16[8, 512, 768]@cuda:0 = aten::linear(%4, %7)
output %8
)",
              {}, DeviceType::CUDA);
}

TEST(AlignedProducts, LeaveTheOthers) {
  for (const std::string& text : {logits("bf16", 50264), logits("f32", 50257), logits("bf16", 9)})
    expect_unchanged(align_products, text, {}, DeviceType::CUDA);
  expect_unchanged(align_products, logits("bf16", 50257), {.numerics = "eager"}, DeviceType::CUDA);
  expect_unchanged(align_products, logits("bf16", 50257, "cpu"), {}, DeviceType::CUDA);
  // Rows of a wider matrix: padding would copy them, and they are aligned or not as they are.
  expect_unchanged(align_products, R"(
input %0 : bf16[4096, 1024]{1025, 1}@cuda:0 = argument "x"
input %1 : bf16[1024, 1024]@cuda:0 = parameter "w"
%2 : bf16[4096, 1024]@cuda:0 = aten::mm(%0, %1)
output %2
)",
                   {}, DeviceType::CUDA);
}

// The split of a training graph pads products of its forward pass alone.
TEST(AlignedProducts, ThoseFromTheEndOnStay) {
  const auto graph = parse(logits("bf16", 50257));
  const Options options;
  PassContext context{.options = options, .device = DeviceType::CUDA};
  EXPECT_TRUE(has_unaligned_products(*graph, context));
  context.end = graph->first();
  EXPECT_FALSE(has_unaligned_products(*graph, context));
  EXPECT_FALSE(align_products(*graph, context));
  EXPECT_EQ(graph->node_count(), 1u);
}

}  // namespace
}  // namespace vesta::graph
