// Passes over convolutions, text in and text out.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/passes/library.h"
#include "graph/passes/passes.h"
#include "pass_text.h"

namespace vesta::graph {
namespace {

using testing_text::expect_pass;
using testing_text::expect_unchanged;

const char* const kConvAndNorm = R"(
input %0 : f32[1, 3, 8, 8] = argument "x"
input %1 : f32[4, 3, 3, 3] = parameter "w"
input %2 : f32[4] = parameter "gamma"
input %3 : f32[4] = parameter "beta"
input %4 : f32[4] = parameter "mean"
input %5 : f32[4] = parameter "var"
%6 : f32[1, 4, 8, 8] = aten::convolution(%0, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
%7 : f32[1, 4, 8, 8], %8 : f32[0], %9 : f32[0] = aten::native_batch_norm(%6, %2, %3, %4, %5, false, 0.1, 1e-05)
output %7
)";

TEST(ConvBatchNorm, FoldsIntoPrepackedConstants) {
  expect_pass(fold_batch_norm, kConvAndNorm, R"(
input %0 : f32[1, 3, 8, 8] = argument "x"
input %1 : f32[4, 3, 3, 3] = parameter "w"
input %2 : f32[4] = parameter "gamma"
input %3 : f32[4] = parameter "beta"
input %4 : f32[4] = parameter "mean"
input %5 : f32[4] = parameter "var"
prepacked %6 : f64[4] = aten::_to_copy(%5, dtype=dtype.f64)
prepacked %7 : f64[4] = aten::add.Scalar(%6, 1e-05)
prepacked %8 : f64[4] = aten::rsqrt(%7)
prepacked %9 : f64[4] = aten::_to_copy(%2, dtype=dtype.f64)
prepacked %10 : f64[4] = aten::mul.Tensor(%8, %9)
prepacked %11 : f32[4] = aten::_to_copy(%10, dtype=dtype.f32)
prepacked %12 : f64[4] = aten::_to_copy(%11, dtype=dtype.f64)
prepacked %13 : f64[4] = aten::_to_copy(%4, dtype=dtype.f64)
prepacked %14 : f64[4] = aten::neg(%13)
prepacked %15 : f64[4] = aten::mul.Tensor(%14, %12)
prepacked %16 : f64[4] = aten::_to_copy(%3, dtype=dtype.f64)
prepacked %17 : f64[4] = aten::add.Tensor(%15, %16)
prepacked %18 : f32[4, 1, 1, 1] = aten::view(%11, [4, 1, 1, 1])
prepacked %19 : f32[4, 3, 3, 3] = aten::mul.Tensor(%1, %18)
prepacked %20 : f32[4] = aten::_to_copy(%17, dtype=dtype.f32)
%21 : f32[1, 4, 8, 8] = aten::convolution(%0, %19, %20, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
output %21
)");
}

// Folding is no matter of a library: it is for every device and float.
TEST(ConvBatchNorm, FoldsForEveryDevice) {
  const auto folds = [](std::string type) {
    std::string text = kConvAndNorm;
    for (size_t i = 0; (i = text.find("f32[", i)) != std::string::npos; ++i) {
      const size_t end = text.find(']', i) + 1;
      const std::string sizes = text.substr(i + 3, end - i - 3);
      text.replace(i, end - i,
                   type.substr(0, type.find('@')) + sizes +
                       (type.find('@') == std::string::npos ? "" : type.substr(type.find('@'))));
    }
    const auto g = parse(text);
    verify(*g);
    const Options options;
    return fold_batch_norm(*g, {.options = options});
  };
  EXPECT_TRUE(folds("f32@cuda:0"));
  EXPECT_TRUE(folds("f16@cuda:0"));
  EXPECT_TRUE(folds("f16"));
  EXPECT_TRUE(folds("f64"));
}

// 4*3*3*3 weights and 4 biases in float32 are 448 bytes.
TEST(ConvBatchNorm, KeepsTheByteBudget) {
  Options options;
  options.packed_weights = 0;
  expect_unchanged(fold_batch_norm, kConvAndNorm, options);
  options.packed_weights = 447;
  expect_unchanged(fold_batch_norm, kConvAndNorm, options);
  options.packed_weights = 448;
  const auto g = parse(kConvAndNorm);
  EXPECT_TRUE(fold_batch_norm(*g, {.options = options}));
}

TEST(ConvBatchNorm, LeavesTrainingAndChangingWeightsAlone) {
  std::string text = kConvAndNorm;
  std::string training = text;
  training.replace(training.find("false, 0.1"), 5, "true");
  expect_unchanged(fold_batch_norm, training);
  std::string changing = text;
  changing.replace(changing.find("parameter \"gamma\""), 9, "argument");
  expect_unchanged(fold_batch_norm, changing);
  const auto g = parse(text);
  const Options options;
  EXPECT_FALSE(fold_batch_norm(*g, {.options = options, .inference = false}));
}

TEST(ConvLibrary, TakesActivationsAndAdditions) {
  expect_pass(use_library_convolution, R"(
input %0 : f32[1, 4, 8, 8] = argument "x"
input %1 : f32[4, 4, 3, 3] = parameter "w"
input %2 : f32[4] = parameter "b"
%3 : f32[1, 4, 8, 8] = aten::convolution(%0, %1, %2, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
%4 : f32[1, 4, 8, 8] = aten::hardswish(%3)
%5 : f32[1, 4, 8, 8] = aten::convolution(%4, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
%6 : f32[1, 4, 8, 8] = aten::add.Tensor(%5, %0)
%7 : f32[1, 4, 8, 8] = aten::convolution(%6, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
%8 : f32[1, 4, 8, 8] = aten::relu(%7)
output %8
)",
              R"(
input %0 : f32[1, 4, 8, 8] = argument "x"
input %1 : f32[4, 4, 3, 3] = parameter "w"
input %2 : f32[4] = parameter "b"
%3 : f32[1, 4, 8, 8] = mkldnn::_convolution_pointwise(%0, %1, %2, [1, 1], [1, 1], [1, 1], 1, "hardswish", float[], "")
%4 : f32[1, 4, 8, 8] = mkldnn::_convolution_pointwise.binary(%3, %0, %1, none, [1, 1], [1, 1], [1, 1], 1, "add", 1.0, none, float[])
%5 : f32[1, 4, 8, 8] = aten::convolution(%4, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
%6 : f32[1, 4, 8, 8] = aten::relu(%5)
output %6
)");
}

TEST(ChannelsLast, ConvertsAtTheEdges) {
  expect_pass(use_channels_last, R"(
input %0 : f32[1, 4, 8, 8] = argument "x"
input %1 : f32[4, 4, 3, 3] = parameter "w"
%2 : f32[1, 4, 8, 8] = aten::convolution(%0, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
%3 : f32[1, 4, 8, 8] = aten::relu(%2)
%4 : f32[1, 4, 8, 8] = aten::convolution(%3, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
%5 : f32[1, 4, 8, 8] = aten::add.Tensor(%4, %2)
%6 : f32[1, 4, 8, 8] = aten::convolution(%5, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
%7 : f32[1, 256] = aten::view(%6, [1, 256])
%8 : f32[1, 4] = aten::mean.dim(%6, [2, 3])
output %7
output %8
output %6
)",
              R"(
input %0 : f32[1, 4, 8, 8] = argument "x"
input %1 : f32[4, 4, 3, 3] = parameter "w"
%2 : f32[1, 4, 8, 8]{256, 1, 32, 4} = aten::clone(%0, memory_format=format.channels_last)
%3 : f32[1, 4, 8, 8]{256, 1, 32, 4} = aten::convolution(%2, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
%4 : f32[1, 4, 8, 8]{256, 1, 32, 4} = aten::relu(%3)
%5 : f32[1, 4, 8, 8]{256, 1, 32, 4} = aten::convolution(%4, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
%6 : f32[1, 4, 8, 8]{256, 1, 32, 4} = aten::add.Tensor(%5, %3)
%7 : f32[1, 4, 8, 8]{256, 1, 32, 4} = aten::convolution(%6, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
%8 : f32[1, 4, 8, 8] = aten::clone(%7, memory_format=format.contiguous)
%9 : f32[1, 256] = aten::view(%8, [1, 256])
%10 : f32[1, 4] = aten::mean.dim(%7, [2, 3])
output %9
output %10
output %8
)");
}

TEST(ChannelsLast, LeavesShortChainsAlone) {
  expect_unchanged(use_channels_last, R"(
input %0 : f32[1, 4, 8, 8] = argument "x"
input %1 : f32[4, 4, 3, 3] = parameter "w"
%2 : f32[1, 4, 8, 8] = aten::convolution(%0, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
%3 : f32[1, 4, 8, 8] = aten::convolution(%2, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
output %3
)");
}

// Three convolutions on a GPU, of which the second has this many groups.
std::string convolutions_on_gpu(const char* dtype, int groups) {
  return fmt::format(R"(
input %0 : {0}[1, 8, 6, 6]@cuda:0 = argument "x"
input %1 : {0}[8, 8, 3, 3]@cuda:0 = parameter "w"
input %2 : {0}[8, {2}, 3, 3]@cuda:0 = argument "v"
%3 : {0}[1, 8, 6, 6]@cuda:0 = aten::convolution(%0, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
%4 : {0}[1, 8, 6, 6]@cuda:0 = aten::group_norm(%3, 2)
%5 : {0}[1, 8, 6, 6]@cuda:0 = aten::convolution(%4, %2, none, [1, 1], [1, 1], [1, 1], false, [0, 0], {1})
%6 : {0}[1, 8, 6, 6]@cuda:0 = aten::convolution(%5, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
%7 : {0}[1, 8, 6, 6]@cuda:0 = aten::convolution(%6, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
output %7
)",
                     dtype, groups, 8 / groups);
}

TEST(ChannelsLast, LaysConstantWeightsOutOnceOnAGpu) {
  expect_pass(use_channels_last, convolutions_on_gpu("bf16", 1), R"(
input %0 : bf16[1, 8, 6, 6]@cuda:0 = argument "x"
input %1 : bf16[8, 8, 3, 3]@cuda:0 = parameter "w"
input %2 : bf16[8, 8, 3, 3]@cuda:0 = argument "v"
%3 : bf16[1, 8, 6, 6]{288, 1, 48, 8}@cuda:0 = aten::clone(%0, memory_format=format.channels_last)
prepacked %4 : bf16[8, 8, 3, 3]{72, 1, 24, 8}@cuda:0 = aten::clone(%1, memory_format=format.channels_last)
%5 : bf16[1, 8, 6, 6]{288, 1, 48, 8}@cuda:0 = aten::convolution(%3, %4, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
%6 : bf16[1, 8, 6, 6]{288, 1, 48, 8}@cuda:0 = aten::group_norm(%5, 2)
%7 : bf16[8, 8, 3, 3]{72, 1, 24, 8}@cuda:0 = aten::clone(%2, memory_format=format.channels_last)
%8 : bf16[1, 8, 6, 6]{288, 1, 48, 8}@cuda:0 = aten::convolution(%6, %7, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
%9 : bf16[1, 8, 6, 6]{288, 1, 48, 8}@cuda:0 = aten::convolution(%8, %4, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
%10 : bf16[1, 8, 6, 6]{288, 1, 48, 8}@cuda:0 = aten::convolution(%9, %4, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
%11 : bf16[1, 8, 6, 6]@cuda:0 = aten::clone(%10, memory_format=format.contiguous)
output %11
)",
              {.packed_weights = 1 << 20}, DeviceType::CUDA);
}

TEST(ChannelsLast, KeepsNoWeightsOnAGpuByDefault) {
  const auto g = parse(convolutions_on_gpu("f16", 1));
  EXPECT_TRUE(use_channels_last(*g, {.options = {}, .device = DeviceType::CUDA}));
  verify(*g);
  EXPECT_EQ(prepacked_bytes(*g), 0);
}

TEST(ChannelsLast, KeepsWeightsWithinTheBoundOfCopies) {
  const auto g = parse(convolutions_on_gpu("f16", 1));
  EXPECT_TRUE(use_channels_last(*g, {.options = {.packed_weights = 0}, .device = DeviceType::CUDA}));
  verify(*g);
  EXPECT_EQ(prepacked_bytes(*g), 0);
  // Each call lays a weight out for all convolutions that read it: two weights, and the input of the first.
  int copies = 0;
  g->for_each_node([&](const Node* n) {
    copies +=
        n->op->name == "aten::clone" && n->results[0]->type.strides == channels_last_strides(n->results[0]->type.sizes);
  });
  EXPECT_EQ(copies, 3);
  // Room for one weight, which three convolutions read.
  const auto shared = parse(convolutions_on_gpu("f16", 1));
  const int64_t bytes = 8 * 8 * 3 * 3 * 2;
  EXPECT_TRUE(use_channels_last(*shared, {.options = {.packed_weights = bytes}, .device = DeviceType::CUDA}));
  verify(*shared);
  EXPECT_EQ(prepacked_bytes(*shared), bytes);
  int reading = 0;
  shared->for_each_node([&](const Node* n) {
    n->for_each_input([&](const Value* v) { reading += v->producer && v->producer->prepacked; });
  });
  EXPECT_EQ(reading, 3);
}

TEST(ChannelsLast, IsForHalfTypesWithoutGroupsOnAGpu) {
  expect_unchanged(use_channels_last, convolutions_on_gpu("f32", 1), {}, DeviceType::CUDA);
  expect_unchanged(use_channels_last, convolutions_on_gpu("bf16", 8), {}, DeviceType::CUDA);
  expect_unchanged(use_channels_last, convolutions_on_gpu("bf16", 1), {.numerics = "eager"}, DeviceType::CUDA);
}

TEST(ConvBias, IsAddedByANodeOfTheGraphOnAGpu) {
  const auto convolution = [](const char* weight, int groups) {
    return fmt::format(R"(
input %0 : bf16[2, 4, 6, 6]@cuda:0 = argument "x"
input %1 : bf16[{}]@cuda:0 = parameter "w"
input %2 : bf16[4]@cuda:0 = parameter "b"
%3 : bf16[2, 4, 6, 6]@cuda:0 = aten::convolution(%0, %1, %2, [1, 1], [1, 1], [1, 1], false, [0, 0], {})
output %3
)",
                       weight, groups);
  };
  expect_pass(separate_bias, convolution("4, 4, 3, 3", 1), R"(
input %0 : bf16[2, 4, 6, 6]@cuda:0 = argument "x"
input %1 : bf16[4, 4, 3, 3]@cuda:0 = parameter "w"
input %2 : bf16[4]@cuda:0 = parameter "b"
%3 : bf16[2, 4, 6, 6]@cuda:0 = aten::convolution(%0, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
%4 : bf16[1, 4, 1, 1]@cuda:0 = aten::view(%2, [1, 4, 1, 1])
%5 : bf16[2, 4, 6, 6]@cuda:0 = aten::add.Tensor(%3, %4)
output %5
)",
              {}, DeviceType::CUDA);
  expect_unchanged(separate_bias, convolution("4, 1, 3, 3", 4), {}, DeviceType::CUDA);
  expect_unchanged(separate_bias, convolution("4, 4, 3, 3", 1), {.numerics = "eager"}, DeviceType::CUDA);
}

const char* const kChannelsLastConvs = R"(
input %0 : f32[1, 4, 8, 8]{256, 1, 32, 4} = argument "x"
input %1 : f32[4, 4, 3, 3] = parameter "w"
%2 : f32[1, 4, 8, 8]{256, 1, 32, 4} = aten::convolution(%0, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
%3 : f32[1, 4, 8, 8]{256, 1, 32, 4} = mkldnn::_convolution_pointwise(%2, %1, none, [1, 1], [1, 1], [1, 1], 1, "swish", float[], "")
%4 : f32[1, 4, 8, 8] = aten::convolution(%3, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
output %4
)";

// The first two share one packed weight; the third's result is not in channels-last.
TEST(PackWeights, PacksOncePerUse) {
  expect_pass(pack_weights, kChannelsLastConvs, R"(
input %0 : f32[1, 4, 8, 8]{256, 1, 32, 4} = argument "x"
input %1 : f32[4, 4, 3, 3] = parameter "w"
prepacked %2 : f32[4, 4, 3, 3] = mkldnn::_reorder_convolution_weight(%1, [1, 1], [1, 1], [1, 1], 1, [1, 4, 8, 8])
%3 : f32[1, 4, 8, 8]{256, 1, 32, 4} = mkldnn::_convolution_pointwise(%0, %2, none, [1, 1], [1, 1], [1, 1], 1, "none", float[], "")
%4 : f32[1, 4, 8, 8]{256, 1, 32, 4} = mkldnn::_convolution_pointwise(%3, %2, none, [1, 1], [1, 1], [1, 1], 1, "swish", float[], "")
%5 : f32[1, 4, 8, 8] = aten::convolution(%4, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
output %5
)");
}

// A weight that is computed to be packed is computed in the order that the packing reads; one that others read is not.
TEST(PackWeights, FoldedWeightsLieChannelsLast) {
  const auto graph = [](const std::string& strides, const std::string& more, const std::string& outputs) {
    return R"(
input %0 : f32[1, 4, 8, 8]{256, 1, 32, 4} = argument "x"
input %1 : f32[4, 4, 3, 3] = parameter "w"
input %2 : f32[4, 1, 1, 1] = parameter "scale"
prepacked %3 : f32[4, 4, 3, 3])" +
           strides + " = aten::mul.Tensor(%1, %2)\n" + more + "output " + outputs + "\n";
  };
  const std::string convolution =
      "%4 : f32[1, 4, 8, 8]{256, 1, 32, 4} = aten::convolution(%0, %3, none, [1, 1], [1, 1], [1, 1], false, [0, 0], "
      "1)\n";
  const std::string packed =
      "prepacked %4 : f32[4, 4, 3, 3] = mkldnn::_reorder_convolution_weight(%3, [1, 1], [1, 1], [1, 1], 1, [1, 4, 8, "
      "8])\n"
      "%5 : f32[1, 4, 8, 8]{256, 1, 32, 4} = mkldnn::_convolution_pointwise(%0, %4, none, [1, 1], [1, 1], [1, 1], 1, "
      "\"none\", float[], \"\")\n";
  expect_pass(pack_weights, graph("", convolution, "%4"), graph("{36, 1, 12, 4}", packed, "%5"));
  expect_pass(pack_weights, graph("", convolution, "%4\noutput %3"), graph("", packed, "%5\noutput %3"));
}

// A window over everything: of one row and column both orders are the same memory.
TEST(PackWeights, OneRowAndColumn) {
  expect_pass(pack_weights, R"(
input %0 : f32[2, 4, 7, 7]{196, 1, 28, 4} = argument "x"
input %1 : f32[8, 4, 7, 7] = parameter "w"
%2 : f32[2, 8, 1, 1] = aten::convolution(%0, %1, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
output %2
)",
              R"(
input %0 : f32[2, 4, 7, 7]{196, 1, 28, 4} = argument "x"
input %1 : f32[8, 4, 7, 7] = parameter "w"
prepacked %2 : f32[8, 4, 7, 7] = mkldnn::_reorder_convolution_weight(%1, [0, 0], [1, 1], [1, 1], 1, [2, 4, 7, 7])
%3 : f32[2, 8, 1, 1] = mkldnn::_convolution_pointwise(%0, %2, none, [0, 0], [1, 1], [1, 1], 1, "none", float[], "")
output %3
)");
}

// Nothing is packed where something is added to an image of one pixel.
TEST(PackWeights, AddedToOnePixel) {
  expect_unchanged(pack_weights, R"(
input %0 : f32[2, 4, 1, 1] = argument "x"
input %1 : f32[8, 4, 1, 1] = parameter "w"
input %2 : f32[2, 8, 1, 1] = argument "y"
%3 : f32[2, 8, 1, 1] = mkldnn::_convolution_pointwise.binary(%0, %2, %1, none, [0, 0], [1, 1], [1, 1], 1, "add", 1.0, none, float[], none)
output %3
)");
}

// 4 channels are padded to 16: 16*16*3*3*4 bytes.
TEST(PackWeights, KeepsTheByteBudget) {
  Options options;
  options.packed_weights = 9215;
  expect_unchanged(pack_weights, kChannelsLastConvs, options);
  options.packed_weights = 9216;
  const auto g = parse(kChannelsLastConvs);
  EXPECT_TRUE(pack_weights(*g, {.options = options}));
}

// oneDNN pads the channels of each group to a vector, but for depthwise convolutions.
TEST(PackWeights, BytesOfGroupedWeights) {
  const auto bytes = [](const char* type, int64_t groups, int64_t vector_bytes = 64) {
    const auto g = parse(fmt::format("input %0 : {} = parameter \"w\"\noutput %0\n", type));
    return most_reordered_bytes(g->inputs[0].value->type, groups, vector_bytes).value();
  };
  EXPECT_EQ(bytes("f32[64, 32, 3, 3]", 1), 64 * 32 * 9 * 4);
  EXPECT_EQ(bytes("f32[60, 3, 3, 3]", 1), 64 * 16 * 9 * 4);
  EXPECT_EQ(bytes("f32[60, 1, 3, 3]", 60), 64 * 9 * 4);
  EXPECT_EQ(bytes("f32[128, 1, 3, 3]", 64), 64 * 16 * 16 * 9 * 4);
  EXPECT_EQ(bytes("f32[64, 16, 3, 3]", 4), 64 * 16 * 9 * 4);
  EXPECT_EQ(bytes("f32[60, 3, 3, 3]", 1, 32), 64 * 8 * 9 * 4);
  EXPECT_EQ(bytes("f32[128, 1, 3, 3]", 64, 32), 64 * 8 * 8 * 9 * 4);
}

}  // namespace
}  // namespace vesta::graph
