// Weights in panels for a CPU's products (graph/passes/pack_columns.cpp).
#include <fmt/format.h>

#include "pass_text.h"

namespace vesta::graph::testing_text {
namespace {

PassContext context_of(const Options& options) {
  return {.options = options,
          .computes_product = [](int64_t rows, int64_t, int64_t) { return rows >= 4; },
          .panel_of = [](int64_t, int64_t columns, int64_t,
                         int64_t) { return columns % 32 == 0 ? int64_t{32} : int64_t{0}; }};
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
prepacked %3 : f32[2, 32, 16] = aten::view(%1, [2, 32, 16])
prepacked %4 : f32[2, 16, 32]{512, 1, 16} = aten::permute(%3, [0, 2, 1])
prepacked %5 : f32[2, 16, 32] = aten::clone(%4, memory_format=format.contiguous)
%6 : f32[2, 5, 64] = vesta::packed_linear(%0, %5, %2)
%7 : f32[2, 5, 64] = vesta::packed_linear(%0, %5, none)
output %6
output %7
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
    for (size_t at = 0; (at = after.find("aten::clone", at)) != std::string::npos; ++at) ++n;
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
  EXPECT_EQ(packed(of("f32[8, 16]", "f32[60, 16] = parameter \"w\"", "f32[8, 60]")), "");  // no whole panels
  EXPECT_EQ(packed(of("f32[3, 16]", "f32[64, 16] = parameter \"w\"", "f32[3, 64]")), "");  // few rows
  EXPECT_EQ(packed(of("bf16[8, 16]", "bf16[64, 16] = parameter \"w\"", "bf16[8, 64]")), "");
}

}  // namespace
}  // namespace vesta::graph::testing_text
