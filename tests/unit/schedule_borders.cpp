// Plans of tensors that get a border (aten::constant_pad_nd): the kernel that computes a tensor stores it inside.
#include <fmt/format.h>

#include "schedule_run.h"

namespace {

using namespace vesta;
using namespace vesta::testing;
using Ops = std::vector<std::string_view>;

std::vector<Ops> kernels_of(const schedule::Plan& plan) {
  std::vector<Ops> out;
  for (const schedule::Step& s : plan.steps)
    if (const auto* k = std::get_if<schedule::KernelStep>(&s)) out.push_back(k->ops);
  return out;
}

// A depthwise convolution, `between`, which makes %4 of %3, and a convolution of %4 with a border: [1, channels, 9, 7]
// in channels-last.
std::string convolutions(const std::string& between, const std::string& widths, const std::string& padded,
                         const std::string& result, const std::string& more = "") {
  return fmt::format(R"(
input %0 : f32[1, 8, 9, 7]{{504, 1, 56, 8}} = argument "x"
input %1 : f32[3, 3, 8] = parameter "taps"
input %2 : f32[8] = parameter "b"
%3 : f32[1, 8, 9, 7]{{504, 1, 56, 8}} = vesta::depthwise_convolution(%0, %1, %2, [3, 3], [1, 1], [1, 1], [1, 1])
{}
%5 : f32[1, 9, 7, 8] = aten::permute(%4, [0, 2, 3, 1])
%6 : {} = aten::constant_pad_nd(%5, {}, 0.5)
%7 : {} = aten::permute(%6, [0, 3, 1, 2])
%8 : {} = vesta::depthwise_convolution(%7, %1, none, [3, 3], [1, 1], [0, 0], [1, 1])
output %8
{})",
                     between, padded, widths, result.substr(0, result.find('|')), result.substr(result.find('|') + 1),
                     more);
}

const std::string kRelu = "%4 : f32[1, 8, 9, 7]{504, 1, 56, 8} = aten::relu(%3)";
// Of the widths [0, 0, 1, 2, 3, 0].
const std::string kPadded = "f32[1, 12, 10, 8]";
const std::string kResult = "f32[1, 8, 12, 10]{960, 1, 80, 8}|f32[1, 8, 10, 8]{640, 1, 64, 8}";

TEST(Borders, TheKernelBeforeStoresInside) {
  for (const std::string& between : {kRelu, std::string("%4 : f32[1, 8, 9, 7]{504, 1, 56, 8} = aten::hardswish(%3)")}) {
    const auto plan = check_plan(*graph::parse(convolutions(between, "[0, 0, 1, 2, 3, 0]", kPadded, kResult)));
    const std::vector<Ops> kernels = kernels_of(plan);
    ASSERT_EQ(kernels.size(), 4u) << schedule::print(plan);
    EXPECT_EQ(kernels[0].front(), "vesta::depthwise_convolution");
    EXPECT_EQ(kernels[0].back(), "aten::constant_pad_nd");
    EXPECT_EQ(kernels[1], Ops{"aten::constant_pad_nd"});
    EXPECT_EQ(kernels[2], Ops{"aten::constant_pad_nd"});
    // The border alone: rows before and after, and columns before and after.
    const auto extent = [&](size_t step) {
      int64_t n = 1;
      for (const loops::Range& r : std::get<schedule::KernelStep>(plan.steps[step]).kernel->ranges)
        n *= r.extent.constant();
      return n;
    };
    EXPECT_EQ(extent(1), 3 * 10 * 8);
    EXPECT_EQ(extent(2), 9 * 3 * 8);
  }
}

TEST(Borders, OfOneSide) {
  for (const auto& [widths, padded, result] : std::vector<std::array<std::string, 3>>{
           {"[0, 0, 0, 0, 2, 0]", "f32[1, 11, 7, 8]", "f32[1, 8, 11, 7]{616, 1, 56, 8}|f32[1, 8, 9, 5]{360, 1, 40, 8}"},
           {"[0, 0, 0, 3]", "f32[1, 9, 10, 8]", "f32[1, 8, 9, 10]{720, 1, 80, 8}|f32[1, 8, 7, 8]{448, 1, 64, 8}"}}) {
    const auto plan = check_plan(*graph::parse(convolutions(kRelu, widths, padded, result)));
    ASSERT_EQ(kernels(plan), 3) << schedule::print(plan);
    EXPECT_EQ(kernels_of(plan)[0].back(), "aten::constant_pad_nd");
  }
}

// Others read the tensor without a border, which the kernel stores, too.
TEST(Borders, OtherReaders) {
  const auto plan = check_plan(*graph::parse(convolutions(kRelu, "[0, 0, 1, 2, 3, 0]", kPadded, kResult,
                                                          "%9 : f32[1, 8] = aten::sum.dim_IntList(%4, [2, 3])\n"
                                                          "output %9\noutput %4")));
  const std::vector<Ops> kernels = kernels_of(plan);
  EXPECT_EQ(kernels[0].front(), "vesta::depthwise_convolution");
  EXPECT_NE(std::ranges::find(kernels[0], "aten::constant_pad_nd"), kernels[0].end()) << schedule::print(plan);
  EXPECT_NE(std::ranges::find(kernels[0], "aten::relu"), kernels[0].end());
}

// Where nothing is saved, one kernel copies the tensor and makes the border.
TEST(Borders, OneKernelMakesThemWhereNoneComputesTheTensor) {
  const auto of_input = check_plan(*graph::parse(R"(
input %0 : f32[1, 9, 7, 8] = argument "x"
input %1 : f32[3, 3, 8] = parameter "taps"
%2 : f32[1, 9, 7, 8] = aten::relu(%0)
%3 : f32[1, 11, 9, 8] = aten::constant_pad_nd(%2, [0, 0, 1, 1, 1, 1], 0)
%4 : f32[1, 8, 11, 9]{792, 1, 72, 8} = aten::permute(%3, [0, 3, 1, 2])
%5 : f32[1, 8, 9, 7]{504, 1, 56, 8} = vesta::depthwise_convolution(%4, %1, none, [3, 3], [1, 1], [0, 0], [1, 1])
output %5
)"));
  EXPECT_EQ(kernels_of(of_input)[0], (Ops{"aten::relu", "aten::constant_pad_nd"})) << schedule::print(of_input);
  EXPECT_EQ(kernels(of_input), 2);
  // A crop, and a reader that computes what is before it.
  const auto cropped =
      check_plan(*graph::parse(convolutions(kRelu, "[0, 0, -1, 2, 3, 0]", "f32[1, 12, 8, 8]",
                                            "f32[1, 8, 12, 8]{768, 1, 64, 8}|f32[1, 8, 10, 6]{480, 1, 48, 8}")));
  EXPECT_EQ(kernels(cropped), 2) << schedule::print(cropped);
  const auto added = check_plan(*graph::parse(R"(
input %0 : f32[1, 8, 9, 7]{504, 1, 56, 8} = argument "x"
input %1 : f32[3, 3, 8] = parameter "taps"
%2 : f32[1, 8, 9, 7]{504, 1, 56, 8} = vesta::depthwise_convolution(%0, %1, none, [3, 3], [1, 1], [1, 1], [1, 1])
%3 : f32[1, 9, 7, 8] = aten::permute(%2, [0, 2, 3, 1])
%4 : f32[1, 11, 9, 8] = aten::constant_pad_nd(%3, [0, 0, 1, 1, 1, 1], 0)
%5 : f32[1, 11, 9, 8] = aten::relu(%4)
output %5
)"));
  EXPECT_EQ(kernels(added), 1) << schedule::print(added);
}

TEST(Borders, OfAnyNumberOfImages) {
  const auto plan = check_plan(*graph::parse(R"(
symbol s0 = 3, at least 2
source s0 = size 0 of input 0
input %0 : bf16[s0, 8, 5, 6]{240, 1, 48, 8} = argument "x"
input %1 : f32[3, 3, 8] = parameter "taps"
%2 : bf16[s0, 8, 5, 6]{240, 1, 48, 8} = vesta::depthwise_convolution(%0, %1, none, [3, 3], [1, 1], [1, 1], [1, 1])
%3 : bf16[s0, 8, 5, 6]{240, 1, 48, 8} = aten::hardswish(%2)
%4 : f32[s0, 8, 5, 6]{240, 1, 48, 8} = aten::_to_copy(%3, dtype=dtype.f32)
%5 : f32[s0, 5, 6, 8] = aten::permute(%4, [0, 2, 3, 1])
%6 : f32[s0, 7, 8, 8] = aten::constant_pad_nd(%5, [0, 0, 1, 1, 1, 1], 0)
%7 : f32[s0, 8, 7, 8]{448, 1, 64, 8} = aten::permute(%6, [0, 3, 1, 2])
%8 : bf16[s0, 8, 5, 6]{240, 1, 48, 8} = vesta::depthwise_convolution(%7, %1, none, [3, 3], [1, 1], [0, 0], [1, 1], dtype=dtype.bf16)
output %8
)"),
                               4e-2);  // one of the plans rounds what lies between the convolutions
  EXPECT_EQ(kernels(plan), 4) << schedule::print(plan);
  EXPECT_EQ(kernels_of(plan)[0].back(), "aten::constant_pad_nd");
}

// The sums of a product stay in registers, and its rows are stored where their pixels are.
TEST(Borders, AProductStoresInside) {
  const auto g = graph::parse(R"(
input %0 : f32[2, 5, 4, 16] = argument "x"
input %1 : f32[1, 16, 32] = parameter "panels"
input %2 : f32[3, 3, 32] = parameter "taps"
%3 : f32[2, 5, 4, 32] = vesta::packed_linear(%0, %1, none)
%4 : f32[2, 5, 4, 32] = aten::relu(%3)
%5 : f32[2, 7, 8, 32] = aten::constant_pad_nd(%4, [0, 0, 3, 1, 1, 1], 0)
%6 : f32[2, 32, 7, 8]{1792, 1, 256, 32} = aten::permute(%5, [0, 3, 1, 2])
%7 : f32[2, 32, 5, 6]{960, 1, 192, 32} = vesta::depthwise_convolution(%6, %2, none, [3, 3], [1, 1], [0, 0], [1, 1])
output %7
output %5
)");
  schedule::Options options = with_dags();
  options.target.vector_bytes = 64;
  options.target.avx512 = options.target.fma = true;
  const schedule::Plan plan = schedule::make_plan(*g, options);
  const std::vector<Ops> kernels = kernels_of(plan);
  ASSERT_EQ(kernels.size(), 4u) << schedule::print(plan);
  EXPECT_EQ(kernels[0], (Ops{"vesta::packed_linear", "aten::relu", "aten::constant_pad_nd"}));
  EXPECT_GT(std::get<schedule::KernelStep>(plan.steps[0]).kernel->registers.rows, 0);

  std::vector<Host> inputs;
  uint32_t seed = 1;
  for (const graph::Input& i : g->inputs) inputs.push_back(random_host(i.value->type, seed++));
  const float *x = inputs[0].f32(), *w = inputs[1].f32();
  std::vector<double> expected(2 * 7 * 8 * 32, 0);
  for (size_t n = 0; n < 2; ++n)
    for (size_t row = 0; row < 5; ++row)
      for (size_t column = 0; column < 4; ++column)
        for (size_t c = 0; c < 32; ++c) {
          double sum = 0;
          for (size_t k = 0; k < 16; ++k) sum += double{x[((n * 5 + row) * 4 + column) * 16 + k]} * w[k * 32 + c];
          expected[((n * 7 + row + 1) * 8 + column + 3) * 32 + c] = std::max(sum, 0.0);
        }
  const auto out = run_plan(plan, inputs);
  ASSERT_EQ(out[1].size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(out[1][i], expected[i], 1e-4) << "element " << i;
}

}  // namespace
