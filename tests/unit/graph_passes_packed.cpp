// Weights in panels for a CPU's products (graph/passes/pack_columns.cpp).
#include <fmt/format.h>

#include "pass_text.h"

namespace vesta::graph::testing_text {
namespace {

PassContext context_of(const Options& options) {
  return {.options = options,
          .computes_product = [](DType t, int64_t rows, int64_t, int64_t) { return t != DType::F16 && rows >= 4; },
          .panel_of = [](DType, int64_t, int64_t columns, int64_t,
                         int64_t) { return columns >= 32 ? int64_t{32} : int64_t{0}; }};
}

// The graph after the pass and dead-code; empty: the pass changed nothing.
std::string packed(const std::string& before, const Options& options = {}, bool inference = true) {
  const auto g = parse(before);
  verify(*g);
  PassContext context = context_of(options);
  context.inference = inference;
  if (!pack_columns(*g, context)) return "";
  verify(*g);
  remove_dead_code(*g, {.options = options});
  verify(*g);
  return print(*parse(print(*g)));
}

const std::string kTwoProducts = R"(
input %0 : f32[2, 5, 16] = argument "x"
input %1 : f32[64, 16] = parameter "w"
input %2 : f32[64] = parameter "b"
%3 : f32[2, 5, 64] = aten::linear(%0, %1, %2)
%4 : f32[2, 5, 64] = aten::linear(%0, %1, none)
output %3
output %4
)";

TEST(PackColumns, ProductsOfOneWeightShareItsPanels) {
  EXPECT_EQ(packed(kTwoProducts), canonical(R"(
input %0 : f32[2, 5, 16] = argument "x"
input %1 : f32[64, 16] = parameter "w"
input %2 : f32[64] = parameter "b"
prepacked %3 : f32[2, 16, 32] = vesta::in_panels(%1, 32)
%4 : f32[2, 5, 64] = vesta::packed_linear(%0, %3, %2)
%5 : f32[2, 5, 64] = vesta::packed_linear(%0, %3, none)
output %4
output %5
)"));
}

TEST(PackColumns, TheBudgetBoundsCopies) {
  Options options;
  options.packed_weights = 0;
  EXPECT_EQ(packed(kTwoProducts, options), "");
  options.packed_weights = 64 * 16 * 4 - 1;
  EXPECT_EQ(packed(kTwoProducts, options), "");
  options.packed_weights = 64 * 16 * 4;
  EXPECT_NE(packed(kTwoProducts, options), "");
}

// 768 MiB in two weights: without the option, one of them is packed.
TEST(PackColumns, WithoutTheOptionCopiesHaveABoundToo) {
  const std::string large = R"(
input %0 : f32[8, 4096] = argument "x"
input %1 : f32[24576, 4096] = parameter "v"
input %2 : f32[24576, 4096] = parameter "w"
%3 : f32[8, 24576] = aten::linear(%0, %1, none)
%4 : f32[8, 24576] = aten::linear(%0, %2, none)
output %3
output %4
)";
  const auto packed_ones = [&](const Options& options) {
    const std::string after = packed(large, options);
    int64_t n = 0;
    for (size_t at = 0; (at = after.find("vesta::in_panels", at)) != std::string::npos; ++at) ++n;
    return n;
  };
  EXPECT_EQ(packed_ones({}), 1);
  Options options;
  options.packed_weights = int64_t{1} << 30;
  EXPECT_EQ(packed_ones(options), 2);
}

TEST(PackColumns, OfConstantWeightsAlone) {
  EXPECT_EQ(packed(kTwoProducts, {}, /*inference=*/false), "");
  const auto of = [](const char* x, const char* w, const char* y) {
    return fmt::format(
        "\ninput %0 : {} = argument \"x\"\ninput %1 : {}\n%2 : {} = aten::linear(%0, %1, none)\noutput %2\n", x, w, y);
  };
  EXPECT_NE(packed(of("f32[8, 16]", "f32[64, 16] = parameter \"w\"", "f32[8, 64]")), "");
  EXPECT_EQ(packed(of("f32[8, 16]", "f32[64, 16] = argument \"w\"", "f32[8, 64]")), "");
  const std::string filled = packed(of("f32[8, 16]", "f32[60, 16] = parameter \"w\"", "f32[8, 60]"));
  EXPECT_NE(filled.find("f32[2, 16, 32] = vesta::in_panels(%1, 32)"), std::string::npos) << filled;
  EXPECT_NE(filled.find("none, 60)"), std::string::npos) << filled;
  EXPECT_EQ(packed(of("f32[3, 16]", "f32[64, 16] = parameter \"w\"", "f32[3, 64]")), "");  // few rows
  const std::string pairs = packed(of("bf16[8, 16]", "bf16[64, 16] = parameter \"w\"", "bf16[8, 64]"));
  EXPECT_NE(pairs.find("bf16[2, 8, 32, 2] = vesta::in_panels(%1, 32)"), std::string::npos) << pairs;
  EXPECT_EQ(packed(of("f16[8, 16]", "f16[64, 16] = parameter \"w\"", "f16[8, 64]")), "");
}

// Views of a weight, as a module of transposed weights has them, are views of its constant.
TEST(PackColumns, ViewsOfConstants) {
  const auto of = [](const char* kind) {
    return fmt::format(R"(
input %0 : f32[8, 16] = argument "x"
input %1 : f32[16, 192] = {} "w"
%2 : f32[16, 96]{{192, 1}} = aten::slice.Tensor(%1, 1, 96, 192)
%3 : f32[96, 16]{{1, 192}} = aten::permute(%2, [1, 0])
%4 : f32[8, 96] = aten::linear(%0, %3, none)
output %4
)",
                       kind);
  };
  EXPECT_EQ(packed(of("parameter")), canonical(R"(
input %0 : f32[8, 16] = argument "x"
input %1 : f32[16, 192] = parameter "w"
prepacked %2 : f32[16, 96]{192, 1} = aten::slice.Tensor(%1, 1, 96, 192)
prepacked %3 : f32[96, 16]{1, 192} = aten::permute(%2, [1, 0])
prepacked %4 : f32[3, 16, 32] = vesta::in_panels(%3, 32)
%5 : f32[8, 96] = vesta::packed_linear(%0, %4, none)
output %5
)"));
  EXPECT_EQ(packed(of("argument")), "");
  // What is computed from a weight is no constant, and neither are its views.
  EXPECT_EQ(packed(R"(
input %0 : f32[8, 16] = argument "x"
input %1 : f32[16, 96] = parameter "w"
%2 : f32[16, 96] = aten::neg(%1)
%3 : f32[96, 16]{1, 96} = aten::permute(%2, [1, 0])
%4 : f32[8, 96] = aten::linear(%0, %3, none)
output %4
)"),
            "");
}

}  // namespace
}  // namespace vesta::graph::testing_text
