// Matrix products on tensor cores (loops/product.h): their CUDA C++, run on the CPU, and compiled.
#include "codegen/cuda/nvrtc.h"
#include "cubin.h"
#include "cuda_cases.h"
#include "loops/product.h"
#include "machine/cuda/code.h"

namespace vesta::codegen::testing {
namespace {

struct Sizes {
  int64_t rows, columns, inner, tile_rows, tile_columns, stages, parts, each;
};

// silu(x a^T) * (x b^T), or x a^T + bias.
Case product_case(const Sizes& s, DType t, bool two) {
  const char* const epilogue = two ? R"(
  %6 = result f32 %5
  %9 = result f32 %8
  %10 = neg f32 %6
  %11 = exp f32 %10
  %12 = const f32 1
  %13 = add f32 %11 %12
  %14 = div f32 %6 %13
  %15 = mul f32 %14 %9
  store T b3[N*p0 + p1] %15
)"
                                   : R"(
  %6 = result f32 %5
  %10 = load f32 b3[p1]
  %11 = add f32 %6 %10
  store T b2[N*p0 + p1] %11
)";
  const std::string pattern =
      std::string(R"(kernel
range p0 parallel M
range p1 parallel N
range r0 inner K
threads BLOCK team 1 held 0 each EACH
product TR by TC stages ST parts PARTS
buffer b0 T read aligned 16
buffer b1 T read aligned 16 constant
)") +
      (two ? "buffer b2 T read aligned 16 constant\nbuffer b3 T write aligned 16\n"
           : "buffer b2 T write aligned 16\nbuffer b3 f32 read\n") +
      R"(stage loop
  %2 = load T b0[K*p0 + r0]
  %3 = load T b1[K*p1 + r0]
  %16 = cast f32 %2
  %17 = cast f32 %3
  %4 = mul f32 %16 %17
  %5 = accumulate f32 sum %4
)" +
      (two ? "  %7 = load T b2[K*p1 + r0]\n  %18 = cast f32 %7\n  %1 = mul f32 %16 %18\n  %8 = accumulate f32 sum %1\n"
           : "") +
      "stage" + epilogue;
  const auto number = [](int64_t n) { return std::to_string(n); };
  std::string kernel = text(pattern, {{"BLOCK", number(loops::kProductThreads)},
                                      {"PARTS", number(s.parts)},
                                      {"EACH", number(s.each)},
                                      {"TR", number(s.tile_rows)},
                                      {"TC", number(s.tile_columns)},
                                      {"ST", number(s.stages)},
                                      {"T ", t == DType::F16 ? "f16 " : "bf16 "},
                                      {"M\n", number(s.rows) + "\n"},
                                      {"N\n", number(s.columns) + "\n"},
                                      {"K\n", number(s.inner) + "\n"},
                                      {"K*", number(s.inner) + "*"},
                                      {"N*", number(s.columns) + "*"}});
  Case c{kernel, loops::parse_kernel(kernel), {}, {}, 4, 2e-2};
  c.arrays.push_back(random_array(t, s.rows * s.inner, 1));
  c.arrays.push_back(random_array(t, s.columns * s.inner, 2));
  if (two) c.arrays.push_back(random_array(t, s.columns * s.inner, 3));
  c.arrays.push_back(make_array(t, s.rows * s.columns));
  if (!two) c.arrays.push_back(random_array(DType::F32, s.columns, 4));
  return c;
}

const Sizes kSizes[] = {
    {128, 64, 256, 128, 32, 4, 1, 8}, {100, 72, 136, 128, 32, 3, 1, 8}, {3, 24, 64, 64, 16, 3, 1, 8},
    {64, 64, 512, 64, 64, 3, 2, 8},   {130, 40, 200, 128, 48, 3, 2, 4}, {5, 33, 320, 64, 32, 4, 1, 1},
    {9, 66, 72, 64, 48, 3, 2, 2},
};

TEST(CudaProducts, EqualTheInterpreter) {
  std::vector<Case> cases;
  for (const Sizes& s : kSizes)
    for (const DType t : {DType::BF16, DType::F16}) {
      cases.push_back(product_case(s, t, false));
      if (s.tile_columns <= 48) cases.push_back(product_case(s, t, true));
    }
  for (const Case& c : cases) {
    EXPECT_EQ(loops::print(*loops::parse_kernel(loops::print(*c.kernel))), loops::print(*c.kernel));
    EXPECT_FALSE(loops::product_sums(*c.kernel).empty());
  }
  expect_same(std::move(cases));
}

// Products of a plan, and what is fused with them.
TEST(CudaProducts, OfPlans) {
  const std::string inputs = R"(input %0 : bf16[2, 50, 192]@D = argument "x" aligned 16
input %1 : bf16[72, 192]@D = argument "w" aligned 16
input %2 : bf16[72, 192]@D = argument "v" aligned 16
input %3 : bf16[72]@D = argument "b" aligned 16
input %4 : bf16[2, 50, 72]@D = argument "y" aligned 16
)";
  const char* const programs[] = {
      "%5 : bf16[2, 50, 72]@D = aten::linear(%0, %1, %3)\noutput %5\n",
      "%5 : bf16[2, 50, 72]@D = aten::linear(%0, %1, none)\n%6 : bf16[2, 50, 72]@D = aten::add.Tensor(%5, %4)\n"
      "output %6\n",
      "%5 : bf16[2, 50, 72]@D = aten::linear(%0, %1, none)\n%6 : bf16[2, 50, 72]@D = aten::silu(%5)\n"
      "%7 : bf16[2, 50, 72]@D = aten::linear(%0, %2, %3)\n%8 : bf16[2, 50, 72]@D = aten::mul.Tensor(%6, %7)\n"
      "output %8\n",
      "%5 : bf16[72, 192]@D = aten::mul.Tensor(%1, %2)\n%6 : bf16[2, 50, 192]@D = aten::exp(%0)\n"
      "%7 : bf16[2, 50, 72]@D = aten::linear(%6, %5, %3)\noutput %7\n",
  };
  std::vector<Case> cases;
  for (const char* program : programs) {
    const size_t before = cases.size();
    add_plan(cases, inputs + program, 4, 2e-2);
    size_t products = 0;
    for (size_t i = before; i < cases.size(); ++i) products += cases[i].kernel->product.rows > 0;
    EXPECT_EQ(products, 1u) << program;
    const loops::Kernel& last = *cases.back().kernel;
    EXPECT_EQ(loops::print(*loops::parse_kernel(loops::print(last))), loops::print(last));
  }
  EXPECT_EQ(cases.size(), 6u);
  expect_same(std::move(cases));
}

// Sums over the same ranges that are no products have the schedule of other sums.
TEST(CudaProducts, OtherSumsAreKernels) {
  std::vector<Case> cases;
  for (const char* t : {"f32", "bf16"}) {
    const std::string pattern = R"(input %0 : T[64, 96]@D = argument "x" aligned 16
input %1 : T[40, 96]@D = argument "y" aligned 16
%2 : T[64, 1, 96]@D = aten::unsqueeze(%0, 1)
%3 : T[64, 40, 96]@D = aten::sub.Tensor(%2, %1)
%4 : T[64, 40, 96]@D = aten::abs(%3)
%5 : T[64, 40]@D = aten::sum.dim_IntList(%4, [2], false)
output %5
)";
    add_plan(cases, text(pattern, {{"T[", std::string(t) + "["}}), 300, 1e-2);
  }
  ASSERT_EQ(cases.size(), 2u);
  for (const Case& c : cases) EXPECT_EQ(c.kernel->product.rows, 0) << c.name;
  expect_same(std::move(cases));
}

// A kernel of few rows reads weights side by side where they are. Where no kernel computes the product, they stay
// apart.
TEST(CudaProducts, OfSeveralWeights) {
  std::string text = "input %0 : bf16[1, 40, 256]@D = argument \"x\" aligned 16\n";
  const std::pair<const char*, int> weights[] = {{"q", 72}, {"k", 24}, {"v", 32}};
  for (size_t i = 0; i < 3; ++i)
    text += fmt::format("input %{} : bf16[{}, 256]@D = parameter \"{}\" aligned 16\n", i + 1, weights[i].second,
                        weights[i].first);
  for (size_t i = 0; i < 3; ++i)
    text += fmt::format(
        "%{0} : bf16[1, 40, {1}]@D = aten::linear(%0, %{2}, none)\n%{3} : bf16[1, 40, {4}]@D = "
        "aten::slice.Tensor(%{0}, 2, 4, {5}, 1)\n",
        2 * i + 4, weights[i].second, i + 1, 2 * i + 5, weights[i].second - 4, weights[i].second);
  for (size_t i = 0; i < 3; ++i)
    text += fmt::format("%{0} : bf16[1, 40, {1}]@D = aten::exp(%{2})\n", i + 10, weights[i].second - 4, 2 * i + 5);
  text += "output %10\noutput %11\noutput %12\n";
  const Options user;
  const auto apart = on_device("cuda:0", text), g = on_device("cuda:0", text);
  graph::run_passes(*apart,
                    {.options = user,
                     .device = DeviceType::CUDA,
                     .computes_product = [](int64_t, int64_t, int64_t) { return false; }},
                    true);
  EXPECT_EQ(graph::print(*apart).find("aten::cat"), std::string::npos);
  graph::run_passes(
      *g,
      {.options = user, .device = DeviceType::CUDA, .computes_product = [](int64_t, int64_t, int64_t) { return true; }},
      true);
  std::vector<Case> cases;
  add_plan(cases, *g, 4, 2e-2);
  const auto products =
      std::count_if(cases.begin(), cases.end(), [](const Case& c) { return c.kernel->product.rows > 0; });
  EXPECT_EQ(products, 1);
  for (const Case& c : cases) {
    if (c.kernel->product.rows == 0) continue;
    EXPECT_EQ(loops::product_sums(*c.kernel).at(0).columns.size(), 3u) << c.name;
  }
  add_other_schedules(cases);
  EXPECT_GT(cases.size(), 10u);
  expect_same(std::move(cases));
}

// With the instructions of one architecture, and as PTX for the later ones.
TEST(CudaProducts, Compile) {
  std::string why;
  const Nvrtc* const nvrtc = Nvrtc::get(&why);
  ASSERT_NE(nvrtc, nullptr) << why;
  EXPECT_TRUE(nvrtc->takes("sm_90a"));
  EXPECT_FALSE(nvrtc->takes("sm_90z"));
  for (const Sizes& s : {Sizes{128, 4096, 4096, 128, 32, 8, 1, 8},
                         {128, 4096, 14336, 128, 64, 8, 2, 8},
                         {128, 14336, 4096, 128, 112, 5, 1, 8},
                         {16, 4096, 4096, 64, 48, 8, 1, 8}}) {
    const Case c = product_case(s, DType::BF16, s.tile_columns == 112);
    loops::verify(*c.kernel);
    CompileOptions options;
    if (const char* dir = std::getenv("VESTA_TEST_DUMP")) options.dump_dir = dir;
    const auto result = compile({{loops::print(*c.kernel), fmt::format("product_{}", s.tile_columns)}},
                                machine::cuda_target_of(90), options);
    ASSERT_EQ(result.size(), 1u);
    const machine::CudaCode code = machine::read_cuda_code(result[0].object->bytes, true);
    const vesta::testing::CubinUse use = vesta::testing::use_of(code.cubin);
    EXPECT_EQ(use.frame, 0u) << s.tile_rows << " by " << s.tile_columns;
    EXPECT_LE(use.registers, 168u);
    EXPECT_NE(code.ptx.find("mma.sync"), std::string::npos);
    EXPECT_EQ(code.ptx.find("wgmma"), std::string::npos);
  }
}

}  // namespace
}  // namespace vesta::codegen::testing
