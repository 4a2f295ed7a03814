// Passes, text in and text out.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/passes/passes.h"
#include "pass_text.h"

namespace vesta::graph {
namespace {

using testing_text::expect_pass;
using testing_text::expect_unchanged;

TEST(DeadCode, RemovesWhatNobodyReads) {
  expect_pass(remove_dead_code, R"(
input %0 : f32[2, 3] = argument "x"
%1 : f32[2, 3] = aten::neg(%0)
%2 : f32[2, 3] = aten::exp(%1)
%3 : f32[2, 3] = aten::exp(%0)
output %3
)",
              R"(
input %0 : f32[2, 3] = argument "x"
%1 : f32[2, 3] = aten::exp(%0)
output %1
)");
}

TEST(DeadCode, KeepsRandomNumbersAndUnknownOperators) {
  declare_op("test::effect(Tensor x) -> Tensor");
  expect_unchanged(remove_dead_code, R"(
input %0 : f32[2, 3] = argument "x"
%1 : f32[2, 3] = aten::bernoulli(%0)
%2 : f32[2, 3] = test::effect(%0)
output %0
)");
}

// Places that are counted from 0 lie inside of what they index. transformers' masks of packed sequences do so.
TEST(UnreadErrors, PlacesThatLieInsideRaiseNothing) {
  const auto raises = [](const char* node, const char* more = "0") {
    const auto g = parse(fmt::format(R"(symbol s0 = 4, at least 2
source s0 = size 0 of input 0
input %0 : f32[s0, 8] = argument "x"
input %1 : f32[s0] = argument "y"
%2 : i64[s0] = aten::arange(s0, device=device.cpu)
%3 : i64[s0] = aten::add.Scalar(%2, {})
%4 : i64[s0, 1] = aten::unsqueeze(%3, 1)
{}
output %1
)",
                                     more, node));
    const Options options;
    keep_unread_errors(*g, {.options = options});
    return print(*g).find("raises") != std::string::npos;
  };
  const char* index = "%5 : f32[s0, 1] = aten::index.Tensor(%1, [%4])";
  EXPECT_FALSE(raises(index));
  EXPECT_FALSE(raises(index, "-1"));  // from the end
  EXPECT_TRUE(raises(index, "1"));
  EXPECT_TRUE(raises("%5 : f32[s0, 1] = aten::index.Tensor(%0, [none, %4])"));  // s0 may be greater than 8
  EXPECT_FALSE(raises("%5 : f32[s0, 8] = aten::embedding(%0, %3)"));
  EXPECT_TRUE(raises("%5 : f32[s0, 8] = aten::embedding(%0, %3)", "-1"));
  EXPECT_FALSE(raises("%5 : f32[s0, 8] = aten::index_select(%0, 0, %3)"));
  EXPECT_TRUE(raises("%5 : f32[s0, 8] = aten::index_select(%0, 0, %3)", "-1"));
  EXPECT_FALSE(raises("%5 : f32[s0, 1] = aten::gather(%0, -2, %4)"));
  EXPECT_TRUE(raises("%5 : f32[s0, 1] = aten::gather(%0, 1, %4)"));
}

TEST(UnreadErrors, WhatMayRaiseStays) {
  expect_pass(keep_unread_errors, R"(
input %0 : f32[2, 3] = argument "x"
input %1 : i64[2, 3] = argument "i"
%2 : i64[2, 3] = aten::add.Scalar(%1, 1)
%3 : f32[2, 3] = aten::gather(%0, 0, %2)
%4 : f32[2, 3] = aten::neg(%3)
%5 : f32[2, 3] = aten::gather(%0, 0, %1)
%6 : i64[2, 3] = aten::remainder.Tensor(%1, %2)
%7 : i64[2, 3] = aten::remainder.Scalar(%1, 3)
output %5
)",
              R"(
input %0 : f32[2, 3] = argument "x"
input %1 : i64[2, 3] = argument "i"
%2 : i64[2, 3] = aten::add.Scalar(%1, 1)
raises %3 : f32[2, 3] = aten::gather(%0, 0, %2)
%4 : f32[2, 3] = aten::gather(%0, 0, %1)
raises %5 : i64[2, 3] = aten::remainder.Tensor(%1, %2)
output %4
)");
  expect_pass(remove_dead_code, R"(
input %0 : f32[2, 3] = argument "x"
input %1 : i64[2, 3] = argument "i"
raises %2 : f32[2, 3] = aten::gather(%0, 0, %1)
%3 : f32[2, 3] = aten::neg(%2)
output %0
)",
              R"(
input %0 : f32[2, 3] = argument "x"
input %1 : i64[2, 3] = argument "i"
raises %2 : f32[2, 3] = aten::gather(%0, 0, %1)
output %0
)");
}

TEST(CommonSubexpressions, MergesEqualNodes) {
  expect_pass(merge_subexpressions, R"(
input %0 : f32[2, 3] = argument "x"
%1 : f32[2, 3] = aten::exp(%0)
%2 : f32[2, 3] = aten::exp(%0)
%3 : f32[2, 3] = aten::mul.Tensor(%1, %2)
output %3
)",
              R"(
input %0 : f32[2, 3] = argument "x"
%1 : f32[2, 3] = aten::exp(%0)
%2 : f32[2, 3] = aten::mul.Tensor(%1, %1)
output %2
)");
}

TEST(CommonSubexpressions, KeepsRandomNodesSignsOfZeroAndOutputsApart) {
  expect_unchanged(merge_subexpressions, R"(
input %0 : f32[2, 3] = argument "x"
%1 : f32[2, 3] = aten::bernoulli(%0)
%2 : f32[2, 3] = aten::bernoulli(%0)
%3 : f32[2, 3] = aten::add.Tensor(%1, %2)
output %3
)");
  expect_unchanged(merge_subexpressions, R"(
%0 : f32[2] = aten::full([2], 0.0, dtype=dtype.f32)
%1 : f32[2] = aten::full([2], -0.0, dtype=dtype.f32)
%2 : f32[2] = aten::div.Tensor(%0, %1)
output %2
)");
  expect_unchanged(merge_subexpressions, R"(
input %0 : f32[2, 3] = argument "x"
%1 : f32[2, 3] = aten::exp(%0)
%2 : f32[2, 3] = aten::exp(%0)
output %1
output %2
)");
}

TEST(KnownSizes, GuardsSayWhatASymbolIs) {
  expect_pass(use_known_sizes, R"(
symbol s0 = 2, at least 2
symbol s1 = 16, at least 2
symbol s2 = 4, at least 2
symbol s3 = 8, at least 2
source s0 = size 0 of input 0
source s1 = size 1 of input 0
source s2 = size 0 of input 1
source s3 = size 1 of input 1
input %0 : f32[s0, s1] = argument "x"
input %1 : f32[s2, s3] = argument "y"
guard 16 == s1
guard s3 == 4*s0
guard 2*s2 == 8
guard s0 < s1
%2 : f32[s0, s1] = aten::exp(%0)
%3 : f32[s2, s3] = aten::exp(%1)
%4 : f32[s3*s2] = aten::view(%3, [s3*s2])
output %2
output %4
)",
              R"(
symbol s0 = 2, at least 2
symbol s1 = 16, at least 2
symbol s2 = 4, at least 2
symbol s3 = 8, at least 2
source s0 = size 0 of input 0
source s1 = size 1 of input 0
source s2 = size 0 of input 1
source s3 = size 1 of input 1
input %0 : f32[s0, 16] = argument "x"
input %1 : f32[4, 4*s0] = argument "y"
guard 16 == s1
guard s3 == 4*s0
guard 2*s2 == 8
guard s0 < s1
%2 : f32[s0, 16] = aten::exp(%0)
%3 : f32[4, 4*s0] = aten::exp(%1)
%4 : f32[16*s0] = aten::view(%3, [16*s0])
output %2
output %4
)");
}

TEST(KnownSizes, WhatIsNotSaidStays) {
  expect_unchanged(use_known_sizes, R"(
symbol s0 = 6, at least 2
symbol s1 = 4, at least 2
source s0 = size 0 of input 0
source s1 = size 1 of input 0
input %0 : f32[s0, s1] = argument "x"
guard 2*s0 == 3*s1
guard s0 >= s1
guard s0 != s1
%1 : f32[s0, s1] = aten::exp(%0)
output %1
)");
}

TEST(Identities, DropsNodesThatChangeNoBit) {
  expect_pass(apply_identities, R"(
input %0 : f32[2, 3] = argument "x"
%1 : f32[2, 3] = aten::mul.Scalar(%0, 1)
%2 : f32[2, 3] = aten::sub.Scalar(%1, 0.0)
%3 : f32[2, 3] = aten::neg(%2)
%4 : f32[2, 3] = aten::neg(%3)
%5 : f32[2, 3] = aten::div.Scalar(%4, 1.0)
%6 : f32[2, 3] = aten::clone(%5)
%7 : f32[2, 3] = aten::exp(%6)
output %7
)",
              R"(
input %0 : f32[2, 3] = argument "x"
%1 : f32[2, 3] = aten::exp(%0)
output %1
)");
}

TEST(Identities, KeepsWhatChangesABit) {
  expect_unchanged(apply_identities, R"(
input %0 : f32[2, 3] = argument "x"
%1 : f32[2, 3] = aten::add.Scalar(%0, 0.0)
%2 : f32[2, 3] = aten::exp(%1)
output %2
)");
  expect_unchanged(apply_identities, R"(
input %0 : i64[2, 3] = argument "x"
%1 : f32[2, 3] = aten::mul.Scalar(%0, 1.0)
%2 : f32[2, 3] = aten::div.Scalar(%0, 1)
%3 : f32[2, 3] = aten::add.Tensor(%1, %2)
output %3
)");
}

TEST(Identities, LeavesOutputsTensorsOfTheirOwn) {
  expect_unchanged(apply_identities, R"(
input %0 : f32[2, 3] = argument "x"
%1 : f32[2, 3] = aten::mul.Scalar(%0, 1)
output %1
)");
}

TEST(Identities, ShortensExactCasts) {
  expect_pass(apply_identities, R"(
input %0 : bf16[4] = argument "x"
%1 : f32[4] = aten::_to_copy(%0, dtype=dtype.f32)
%2 : bf16[4] = aten::_to_copy(%1, dtype=dtype.bf16)
%3 : f64[4] = aten::_to_copy(%1, dtype=dtype.f64)
%4 : bf16[4] = aten::exp(%2)
output %3
output %4
)",
              R"(
input %0 : bf16[4] = argument "x"
%1 : f64[4] = aten::_to_copy(%0, dtype=dtype.f64)
%2 : bf16[4] = aten::exp(%0)
output %1
output %2
)");
  expect_unchanged(apply_identities, R"(
input %0 : f32[4] = argument "x"
%1 : bf16[4] = aten::_to_copy(%0, dtype=dtype.bf16)
%2 : f32[4] = aten::_to_copy(%1, dtype=dtype.f32)
output %2
)");
}

TEST(ConstantFolding, ComputesOnNumbers) {
  expect_pass(fold_constants, R"(
input %0 : f32[2, 3] = argument "x"
%1 : i64[2, 3] = aten::ones([2, 3], dtype=dtype.i64)
%2 : f32[2, 3] = aten::_to_copy(%1, dtype=dtype.f32)
%3 : f32[2, 3] = aten::mul.Scalar(%2, 0.5)
%4 : f32[6] = aten::view(%3, [6])
%5 : f32[6] = aten::neg(%4)
output %5
)",
              R"(
input %0 : f32[2, 3] = argument "x"
%1 : f32[6] = aten::full([6], -0.5, dtype=dtype.f32, device=device.cpu)
output %1
)");
}

TEST(ConstantFolding, RoundsToTheType) {
  expect_pass(fold_constants, R"(
%0 : f32[2] = aten::full([2], 1.001, dtype=dtype.f32)
%1 : bf16[2] = aten::_to_copy(%0, dtype=dtype.bf16)
output %1
)",
              R"(
%0 : bf16[2] = aten::full([2], 1.0, dtype=dtype.bf16, device=device.cpu)
output %0
)");
  expect_unchanged(fold_constants, R"(
%0 : f32[2] = aten::full([2], 0.5, dtype=dtype.f32)
%1 : i64[2] = aten::_to_copy(%0, dtype=dtype.i64)
output %1
)");
}

TEST(Views, ShortensChains) {
  expect_pass(canonicalise_views, R"(
input %0 : f32[2, 3, 4] = argument "x"
%1 : f32[6, 4] = aten::view(%0, [6, 4])
%2 : f32[6, 1, 4] = aten::unsqueeze(%1, 1)
%3 : f32[24] = aten::view(%2, [24])
%4 : f32[24] = aten::exp(%3)
%5 : f32[4, 3, 2]{1, 4, 12} = aten::transpose.int(%0, 0, 2)
%6 : f32[3, 4, 2]{4, 1, 12} = aten::permute(%5, [1, 0, 2])
%7 : f32[3, 4, 2]{4, 1, 12} = aten::exp(%6)
output %4
output %7
)",
              R"(
input %0 : f32[2, 3, 4] = argument "x"
%1 : f32[24] = aten::view(%0, [24])
%2 : f32[24] = aten::exp(%1)
%3 : f32[3, 4, 2]{4, 1, 12} = aten::permute(%0, [1, 2, 0])
%4 : f32[3, 4, 2]{4, 1, 12} = aten::exp(%3)
output %2
output %4
)");
}

TEST(Views, DropsThoseThatShowTheWhole) {
  expect_pass(canonicalise_views, R"(
symbol s0 = 8, at least 2
source s0 = size 0 of input 0
input %0 : f32[s0, 4] = argument "x"
%1 : f32[s0, 4] = aten::slice.Tensor(%0, 0, 0, s0, 1)
%2 : f32[s0, 4] = aten::expand(%1, [s0, 4])
%3 : f32[4, s0]{1, 4} = aten::t(%2)
%4 : f32[s0, 4] = aten::t(%3)
%5 : f32[s0, 4] = aten::exp(%4)
output %5
)",
              R"(
symbol s0 = 8, at least 2
source s0 = size 0 of input 0
input %0 : f32[s0, 4] = argument "x"
%1 : f32[s0, 4] = aten::exp(%0)
output %1
)");
}

TEST(Linear, RecognisesProductsWithWeights) {
  expect_pass(recognise_linear, R"(
input %0 : f32[2, 5, 16] = argument "x"
input %1 : f32[16, 8] = parameter "w"
input %2 : f32[8] = parameter "b"
%3 : f32[10, 16] = aten::view(%0, [10, 16])
%4 : f32[10, 8] = aten::addmm(%2, %3, %1)
%5 : f32[2, 5, 8] = aten::view(%4, [2, 5, 8])
output %5
)",
              R"(
input %0 : f32[2, 5, 16] = argument "x"
input %1 : f32[16, 8] = parameter "w"
input %2 : f32[8] = parameter "b"
%3 : f32[8, 16]{1, 8} = aten::permute(%1, [1, 0])
%4 : f32[2, 5, 8] = aten::linear(%0, %3, %2)
output %4
)");
  expect_unchanged(recognise_linear, R"(
input %0 : f32[10, 16] = argument "x"
input %1 : f32[16, 8] = parameter "w"
input %2 : f32[10, 8] = argument "b"
%3 : f32[10, 8] = aten::addmm(%2, %0, %1)
%4 : f32[10, 8] = aten::addmm(%2, %0, %1, alpha=2)
output %3
output %4
)");
}

TEST(LinearLibrary, TakesActivationsAndAdditions) {
  expect_pass(use_library_linear, R"(
input %0 : f32[64, 768] = argument "x"
input %1 : f32[768, 768] = parameter "w"
input %2 : f32[768] = parameter "b"
%3 : f32[64, 768] = aten::linear(%0, %1, %2)
%4 : f32[64, 768] = aten::gelu(%3, approximate="tanh")
%5 : f32[64, 768] = aten::linear(%4, %1)
%6 : f32[64, 768] = aten::add.Tensor(%0, %5)
output %6
)",
              R"(
input %0 : f32[64, 768] = argument "x"
input %1 : f32[768, 768] = parameter "w"
input %2 : f32[768] = parameter "b"
%3 : f32[64, 768] = mkldnn::_linear_pointwise(%0, %1, %2, "gelu", float[], "tanh")
%4 : f32[64, 768] = mkldnn::_linear_pointwise.binary(%3, %0, %1, none, "add")
output %4
)");
}

// oneDNN's relu turns NaN into 0; a value read twice is kept; tiny and integer products are ATen's.
TEST(LinearLibrary, LeavesTheRestAlone) {
  expect_pass(use_library_linear, R"(
input %0 : f32[64, 768] = argument "x"
input %1 : f32[768, 768] = parameter "w"
%2 : f32[64, 768] = aten::linear(%0, %1)
%3 : f32[64, 768] = aten::relu(%2)
%4 : f32[64, 768] = aten::linear(%3, %1)
%5 : f32[64, 768] = aten::silu(%4)
output %4
output %5
)",
              R"(
input %0 : f32[64, 768] = argument "x"
input %1 : f32[768, 768] = parameter "w"
%2 : f32[64, 768] = mkldnn::_linear_pointwise(%0, %1, none, "none", float[], "")
%3 : f32[64, 768] = aten::relu(%2)
%4 : f32[64, 768] = mkldnn::_linear_pointwise(%3, %1, none, "none", float[], "")
%5 : f32[64, 768] = aten::silu(%4)
output %4
output %5
)");
  expect_unchanged(use_library_linear, R"(
input %0 : f32[4, 8] = argument "x"
input %1 : f32[8, 8] = parameter "w"
%2 : f32[4, 8] = aten::linear(%0, %1)
output %2
)");
  expect_unchanged(use_library_linear, R"(
input %0 : f32[1, 2048] = argument "x"
input %1 : f32[2048, 2048]{1, 2048} = parameter "w"
%2 : f32[1, 2048] = aten::linear(%0, %1)
output %2
)");
}

TEST(LinearLibrary, NeedsInstructionsForBFloat16) {
  const auto uses = [](const char* dtype, bool library_bf16) {
    const auto g = parse(fmt::format(R"(
input %0 : {0}[64, 768] = argument "x"
input %1 : {0}[768, 768] = parameter "w"
%2 : {0}[64, 768] = aten::linear(%0, %1)
output %2
)",
                                     dtype));
    const Options options;
    return use_library_linear(*g, {.options = options, .library_bf16 = library_bf16});
  };
  EXPECT_TRUE(uses("bf16", true));
  EXPECT_FALSE(uses("bf16", false));
  EXPECT_TRUE(uses("f32", false));
}

TEST(PassTable, SkipsLimitsAndObserves) {
  const char* text = R"(
input %0 : f32[2, 3] = argument "x"
%1 : f32[2, 3] = aten::exp(%0)
%2 : f32[2, 3] = aten::exp(%0)
%3 : f32[2, 3] = aten::exp(%0)
output %0
)";
  Options options;
  options.skip_passes = {"dead-code"};
  options.rewrite_limit = 1;
  auto g = parse(text);
  std::vector<std::string> seen;
  run_passes(*g, {.options = options}, true, [&](const PassRow& row, bool before) {
    if (before) seen.emplace_back(row.name);
  });
  EXPECT_EQ(g->node_count(), 2u);  // one of two possible merges was made
  const auto runs = [](const PassRow& row) { return row.name != "dead-code" && row.device != DeviceType::CUDA; };
  EXPECT_EQ(static_cast<std::ptrdiff_t>(seen.size()), std::count_if(pass_table().begin(), pass_table().end(), runs));
  EXPECT_EQ(std::count(seen.begin(), seen.end(), "dead-code"), 0);
}

// oneDNN's operators are the CPU's; what only rewrites the program is for every device.
TEST(PassTable, RowsOfADeviceRunForItAlone) {
  for (const DeviceType device : {DeviceType::CPU, DeviceType::CUDA}) {
    const auto g =
        parse(fmt::format("input %0 : f32[64, 768]{0} = argument \"x\"\n"
                          "input %1 : f32[768, 768]{0} = parameter \"w\"\n"
                          "%2 : f32[64, 768]{0} = aten::mm(%0, %1)\noutput %2\n",
                          device == DeviceType::CPU ? "" : "@cuda:0"));
    std::vector<std::string> seen;
    const Options options;
    run_passes(*g, {.options = options, .device = device}, true, [&](const PassRow& row, bool before) {
      if (before) seen.emplace_back(row.name);
    });
    const bool library = std::count(seen.begin(), seen.end(), "linear-library") == 1;
    EXPECT_EQ(library, device == DeviceType::CPU);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), "linear"), 1);
    const std::string text = print(*g);
    EXPECT_NE(text.find(device == DeviceType::CPU ? "mkldnn::_linear_pointwise" : "aten::linear"), std::string::npos)
        << text;
  }
}

TEST(OneQueryAttention, IsArithmetic) {
  expect_pass(write_one_query_attention, R"(
input %0 : bf16[2, 4, 1, 8] = argument "q"
input %1 : bf16[2, 2, 24, 8] = argument "k"
input %2 : bf16[2, 2, 24, 16] = argument "v"
input %3 : bf16[1, 24] = argument "mask"
%4 : bf16[2, 4, 1, 16], _, _, _, _, _, _, _, _ = aten::_scaled_dot_product_cudnn_attention(%0, %1, %2, %3, false, scale=0.5)
output %4
)",
              R"(
input %0 : bf16[2, 4, 1, 8] = argument "q"
input %1 : bf16[2, 2, 24, 8] = argument "k"
input %2 : bf16[2, 2, 24, 16] = argument "v"
input %3 : bf16[1, 24] = argument "mask"
%4 : bf16[2, 2, 2, 1, 8] = aten::view(%0, [2, 2, 2, 1, 8])
%5 : f32[2, 2, 2, 1, 8] = aten::_to_copy(%4, dtype=dtype.f32)
%6 : bf16[2, 2, 1, 24, 8] = aten::unsqueeze(%1, 2)
%7 : f32[2, 2, 1, 24, 8] = aten::_to_copy(%6, dtype=dtype.f32)
%8 : bf16[2, 2, 1, 24, 16] = aten::unsqueeze(%2, 2)
%9 : f32[2, 2, 1, 24, 16] = aten::_to_copy(%8, dtype=dtype.f32)
%10 : f32[2, 2, 2, 24, 8] = aten::mul.Tensor(%5, %7)
%11 : f32[2, 2, 2, 24, 1] = aten::sum.dim_IntList(%10, [4], true, dtype=dtype.f32)
%12 : f32[2, 2, 2, 24, 1] = aten::mul.Scalar(%11, 0.5)
%13 : bf16[2, 4, 1, 24]{0, 0, 24, 1} = aten::expand(%3, [2, 4, 1, 24])
%14 : bf16[2, 2, 2, 24, 1]{0, 0, 0, 1, 1} = aten::view(%13, [2, 2, 2, 24, 1])
%15 : f32[2, 2, 2, 24, 1] = aten::_to_copy(%14, dtype=dtype.f32)
%16 : f32[2, 2, 2, 24, 1] = aten::add.Tensor(%12, %15)
%17 : f32[2, 2, 2, 24, 16]{96, 48, 24, 1, 0} = aten::expand(%16, [2, 2, 2, 24, 16])
%18 : f32[2, 2, 2, 1, 16] = aten::amax(%17, [3], true)
%19 : bool[2, 2, 2, 1, 16] = aten::eq.Scalar(%18, -inf)
%20 : f32[2, 2, 2, 1, 16] = aten::masked_fill.Scalar(%18, %19, 0)
%21 : f32[2, 2, 2, 24, 16] = aten::sub.Tensor(%17, %20)
%22 : f32[2, 2, 2, 24, 16] = aten::exp(%21)
%23 : f32[2, 2, 2, 1, 16] = aten::sum.dim_IntList(%22, [3], true, dtype=dtype.f32)
%24 : bool[2, 2, 2, 1, 16] = aten::eq.Scalar(%23, 0)
%25 : f32[2, 2, 2, 1, 16] = aten::masked_fill.Scalar(%23, %24, 1)
%26 : f32[2, 2, 2, 24, 16] = aten::mul.Tensor(%22, %9)
%27 : f32[2, 2, 2, 1, 16] = aten::sum.dim_IntList(%26, [3], true, dtype=dtype.f32)
%28 : f32[2, 2, 2, 1, 16] = aten::div.Tensor(%27, %25)
%29 : f32[2, 4, 1, 16] = aten::view(%28, [2, 4, 1, 16])
%30 : bf16[2, 4, 1, 16] = aten::_to_copy(%29, dtype=dtype.bf16)
output %30
)");
}

std::string grouped(const char* attention, const char* keys, const char* values) {
  return fmt::format(R"(
input %0 : bf16[2, 4, 16, 8] = argument "q"
input %1 : bf16[2, 2, 1, 24, 8] = argument "k"
input %2 : bf16[2, 2, 1, 24, 8] = argument "v"
{1}
{2}
%9 : bf16[2, 4, 16, 8], _, _, _, _, _, _, _, _ = aten::{0}
output %9
)",
                     attention, keys, values);
}

TEST(GroupedAttention, ReadsSharedKeysOnce) {
  const char* const keys = R"(%3 : bf16[2, 2, 2, 24, 8]{384, 192, 0, 8, 1} = aten::expand(%1, [2, 2, 2, 24, 8])
%4 : bf16[2, 2, 2, 24, 8] = aten::clone(%3, memory_format=format.contiguous)
%5 : bf16[2, 4, 24, 8] = aten::view(%4, [2, 4, 24, 8]))";
  const char* const values = R"(%6 : bf16[2, 2, 2, 24, 8]{384, 192, 0, 8, 1} = aten::expand(%2, [2, 2, 2, 24, 8])
%7 : bf16[2, 2, 2, 24, 8] = aten::clone(%6, memory_format=format.contiguous)
%8 : bf16[2, 4, 24, 8] = aten::view(%7, [2, 4, 24, 8]))";
  expect_pass(share_keys_of_groups,
              grouped("_scaled_dot_product_cudnn_attention(%0, %5, %8, none, false)", keys, values), R"(
input %0 : bf16[2, 4, 16, 8] = argument "q"
input %1 : bf16[2, 2, 1, 24, 8] = argument "k"
input %2 : bf16[2, 2, 1, 24, 8] = argument "v"
%3 : bf16[2, 2, 24, 8] = aten::squeeze.dim(%1, 2)
%4 : bf16[2, 2, 24, 8] = aten::squeeze.dim(%2, 2)
%5 : bf16[2, 4, 16, 8], _, _, _, _, _, _, _, _ = aten::_scaled_dot_product_cudnn_attention(%0, %3, %4, none, false)
output %5
)");
}

TEST(GroupedAttention, KeepsOtherCopies) {
  const char* const values = R"(%6 : bf16[2, 2, 2, 24, 8]{384, 192, 0, 8, 1} = aten::expand(%2, [2, 2, 2, 24, 8])
%7 : bf16[2, 2, 2, 24, 8] = aten::clone(%6, memory_format=format.contiguous)
%8 : bf16[2, 4, 24, 8] = aten::view(%7, [2, 4, 24, 8]))";
  // Keys of their own for each head: here the whole list of heads is repeated, so that no group of neighbours shares
  // one.
  const char* const whole = R"(%3 : bf16[2, 2, 2, 24, 8] = aten::cat([%1, %1], 2)
%5 : bf16[2, 4, 24, 8] = aten::view(%3, [2, 4, 24, 8]))";
  expect_unchanged(share_keys_of_groups, grouped("_scaled_dot_product_flash_attention(%0, %5, %8)", whole, values));
  const char* const keys = R"(%3 : bf16[2, 2, 2, 24, 8]{384, 192, 0, 8, 1} = aten::expand(%1, [2, 2, 2, 24, 8])
%4 : bf16[2, 2, 2, 24, 8] = aten::clone(%3, memory_format=format.contiguous)
%5 : bf16[2, 4, 24, 8] = aten::view(%4, [2, 4, 24, 8]))";
  // This kernel has no groups.
  expect_unchanged(share_keys_of_groups, fmt::format(R"(
input %0 : bf16[2, 4, 16, 8] = argument "q"
input %1 : bf16[2, 2, 1, 24, 8] = argument "k"
input %2 : bf16[2, 2, 1, 24, 8] = argument "v"
{}
{}
%9 : bf16[2, 4, 16, 8]{{512, 8, 32, 1}}, _, _, _ = aten::_scaled_dot_product_efficient_attention(%0, %5, %8, none, false)
output %9
)",
                                                     keys, values));
}

TEST(OneQueryAttention, IsACallWhereItIsNoArithmetic) {
  const auto call = [](const char* query, const char* more, const char* results = "output %3") {
    return fmt::format(R"(
input %0 : f16[2, 4, {0}, 8] = argument "q"
input %1 : f16[2, 4, 24, 8] = argument "k"
input %2 : f16[2, 4, 24, 8] = argument "v"
%3 : f16[2, 4, {0}, 8], %4 : f32[2, 4, {0}], _, _, _, _, _, _, _ = aten::_scaled_dot_product_flash_attention(%0, %1, %2{1})
{2}
)",
                       query, more, results);
  };
  expect_unchanged(write_one_query_attention, call("2", ""));                          // more queries
  expect_unchanged(write_one_query_attention, call("1", ", 0.5"));                     // random
  expect_unchanged(write_one_query_attention, call("1", ", 0., true"));                // causal
  expect_unchanged(write_one_query_attention, call("1", "", "output %3\noutput %4"));  // more results
}

TEST(GemmEpilogue, TakesReluAndTheTanhFormOfGelu) {
  // The next product reads it, a library call.
  expect_pass(use_gemm_epilogue, R"(
input %0 : bf16[64, 128] = argument "x"
input %1 : bf16[256, 128] = parameter "w1"
input %2 : bf16[256] = parameter "b1"
input %3 : bf16[128, 256] = parameter "w2"
%4 : bf16[64, 256] = aten::linear(%0, %1, %2)
%5 : bf16[64, 256] = aten::relu(%4)
%6 : bf16[64, 128] = aten::linear(%5, %3, none)
output %6
)",
              R"(
input %0 : bf16[64, 128] = argument "x"
input %1 : bf16[256, 128] = parameter "w1"
input %2 : bf16[256] = parameter "b1"
input %3 : bf16[128, 256] = parameter "w2"
%4 : bf16[128, 256]{1, 128} = aten::permute(%1, [1, 0])
%5 : bf16[64, 256] = aten::_addmm_activation(%2, %0, %4)
%6 : bf16[64, 128] = aten::linear(%5, %3, none)
output %6
)");
  // Rows of two dimensions, as many as the caller has.
  expect_pass(use_gemm_epilogue, R"(
symbol s0 = 4, at least 2
source s0 = size 0 of input 0
input %0 : f16[s0, 16, 128] = argument "x"
input %1 : f16[256, 128] = parameter "w1"
input %2 : f16[256] = parameter "b1"
input %3 : f16[128, 256] = parameter "w2"
%4 : f16[s0, 16, 256] = aten::linear(%0, %1, %2)
%5 : f16[s0, 16, 256] = aten::gelu(%4, approximate="tanh")
%6 : f16[s0, 16, 128] = aten::linear(%5, %3, none)
output %6
)",
              R"(
symbol s0 = 4, at least 2
source s0 = size 0 of input 0
input %0 : f16[s0, 16, 128] = argument "x"
input %1 : f16[256, 128] = parameter "w1"
input %2 : f16[256] = parameter "b1"
input %3 : f16[128, 256] = parameter "w2"
%4 : f16[16*s0, 128] = aten::view(%0, [16*s0, 128])
%5 : f16[128, 256]{1, 128} = aten::permute(%1, [1, 0])
%6 : f16[16*s0, 256] = aten::_addmm_activation(%2, %4, %5, use_gelu=true)
%7 : f16[s0, 16, 256] = aten::view(%6, [s0, 16, 256])
%8 : f16[s0, 16, 128] = aten::linear(%7, %3, none)
output %8
)");
  // Nobody but the caller.
  expect_pass(use_gemm_epilogue, R"(
input %0 : f16[64, 128] = argument "x"
input %1 : f16[256, 128] = parameter "w"
input %2 : f16[256] = parameter "b"
%3 : f16[64, 256] = aten::linear(%0, %1, %2)
%4 : f16[64, 256] = aten::relu(%3)
output %4
)",
              R"(
input %0 : f16[64, 128] = argument "x"
input %1 : f16[256, 128] = parameter "w"
input %2 : f16[256] = parameter "b"
%3 : f16[128, 256]{1, 128} = aten::permute(%1, [1, 0])
%4 : f16[64, 256] = aten::_addmm_activation(%2, %0, %3)
output %4
)");
}

TEST(GemmEpilogue, LeavesWhatOneOfOurKernelsDoesAsWell) {
  // x, w, b: their types. What comes after the product %3 and its activation %4.
  const auto text = [](const char* x, const char* y, const char* w, const char* b, const char* after) {
    return fmt::format(
        "input %0 : {0} = argument \"x\"\ninput %1 : {2} = parameter \"w\"\ninput %2 : {3} = parameter \"b\"\n"
        "%3 : {1} = aten::linear(%0, %1, %2)\n{4}",
        x, y, w, b, after);
  };
  const auto plain = [&](const char* after) {
    return text("bf16[64, 128]", "bf16[64, 256]", "bf16[256, 128]", "bf16[256]", after);
  };
  const std::string relu = "%4 : bf16[64, 256] = aten::relu(%3)\n";
  // A residual, also one that is seen through a view; a reduction; a second reader of the product.
  expect_unchanged(use_gemm_epilogue,
                   plain((relu + "%5 : bf16[64, 256] = aten::add.Tensor(%4, %4)\noutput %5\n").c_str()));
  expect_unchanged(use_gemm_epilogue, plain((relu + "%5 : bf16[16384] = aten::view(%4, [16384])\n"
                                                    "%6 : bf16[16384] = aten::exp(%5)\noutput %6\n")
                                                .c_str()));
  expect_unchanged(use_gemm_epilogue,
                   plain((relu + "%5 : bf16[64] = aten::amax(%4, [1], false)\noutput %5\n").c_str()));
  expect_unchanged(use_gemm_epilogue, plain((relu + "output %4\noutput %3\n").c_str()));
  // Other activations; gelu as the library has it not.
  expect_unchanged(use_gemm_epilogue, plain("%4 : bf16[64, 256] = aten::silu(%3)\noutput %4\n"));
  expect_unchanged(use_gemm_epilogue, plain("%4 : bf16[64, 256] = aten::gelu(%3, approximate=\"none\")\noutput %4\n"));
  // float32, one column, a result that would be a view.
  expect_unchanged(use_gemm_epilogue, text("f32[64, 128]", "f32[64, 256]", "f32[256, 128]", "f32[256]",
                                           "%4 : f32[64, 256] = aten::relu(%3)\noutput %4\n"));
  expect_unchanged(use_gemm_epilogue, text("bf16[64, 128]", "bf16[64, 1]", "bf16[1, 128]", "bf16[1]",
                                           "%4 : bf16[64, 1] = aten::relu(%3)\noutput %4\n"));
  expect_unchanged(use_gemm_epilogue, text("bf16[2, 32, 128]", "bf16[2, 32, 256]", "bf16[256, 128]", "bf16[256]",
                                           "%4 : bf16[2, 32, 256] = aten::relu(%3)\noutput %4\n"));
  // Where every result is rounded as eager's is.
  Options eager;
  eager.numerics = "eager";
  expect_unchanged(use_gemm_epilogue, plain((relu + "output %4\n").c_str()), eager);
}

// The flat product that linear replaces must not become a call of its own.
TEST(PassTable, OneLibraryCallForAProduct) {
  auto g = parse(R"(
input %0 : f32[1, 64, 768] = argument "x"
input %1 : f32[768, 3072] = parameter "w"
input %2 : f32[3072] = parameter "b"
%3 : f32[64, 768] = aten::view(%0, [64, 768])
%4 : f32[64, 3072] = aten::addmm(%2, %3, %1)
%5 : f32[1, 64, 3072] = aten::view(%4, [1, 64, 3072])
output %5
)");
  const Options options;
  run_passes(*g, {.options = options}, true);
  int calls = 0;
  g->for_each_node([&](const Node* n) { calls += n->op->name == "mkldnn::_linear_pointwise"; });
  EXPECT_EQ(calls, 1) << print(*g);
}

}  // namespace
}  // namespace vesta::graph
