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

// Of x and of a and b.
struct Types {
  DType row, column;
  DType result() const { return is_float8(row) ? DType::BF16 : row; }
};

// silu(x a^T) * (x b^T), or x a^T + bias.
Case product_case(const Sizes& s, const Types& t, bool two) {
  const char* const epilogue = two ? R"(
  %6 = result f32 %5
  %9 = result f32 %8
  %10 = neg f32 %6
  %11 = exp f32 %10
  %12 = const f32 1
  %13 = add f32 %11 %12
  %14 = div f32 %6 %13
  %15 = mul f32 %14 %9
  store O b3[N*p0 + p1] %15
)"
                                   : R"(
  %6 = result f32 %5
  %10 = load f32 b3[p1]
  %11 = add f32 %6 %10
  store O b2[N*p0 + p1] %11
)";
  const std::string pattern =
      std::string(R"(kernel
range p0 parallel M
range p1 parallel N
range r0 inner K
threads BLOCK team 1 held 0 each EACH
product TR by TC stages ST parts PARTS
buffer b0 T read aligned 16
buffer b1 U read aligned 16 constant
)") +
      (two ? "buffer b2 U read aligned 16 constant\nbuffer b3 O write aligned 16\n"
           : "buffer b2 O write aligned 16\nbuffer b3 f32 read\n") +
      R"(stage loop
  %2 = load T b0[K*p0 + r0]
  %3 = load U b1[K*p1 + r0]
  %16 = cast f32 %2
  %17 = cast f32 %3
  %4 = mul f32 %16 %17
  %5 = accumulate f32 sum %4
)" +
      (two ? "  %7 = load U b2[K*p1 + r0]\n  %18 = cast f32 %7\n  %1 = mul f32 %16 %18\n  %8 = accumulate f32 sum %1\n"
           : "") +
      "stage" + epilogue;
  const auto number = [](int64_t n) { return std::to_string(n); };
  std::string kernel = text(pattern, {{"BLOCK", number(loops::kProductThreads)},
                                      {"PARTS", number(s.parts)},
                                      {"EACH", number(s.each)},
                                      {"TR", number(s.tile_rows)},
                                      {"TC", number(s.tile_columns)},
                                      {"ST", number(s.stages)},
                                      {"T ", std::string(name(t.row)) + " "},
                                      {"U ", std::string(name(t.column)) + " "},
                                      {"O ", std::string(name(t.result())) + " "},
                                      {"M\n", number(s.rows) + "\n"},
                                      {"N\n", number(s.columns) + "\n"},
                                      {"K\n", number(s.inner) + "\n"},
                                      {"K*", number(s.inner) + "*"},
                                      {"N*", number(s.columns) + "*"}});
  Case c{kernel, loops::parse_kernel(kernel), {}, {}, 4, 2e-2};
  c.arrays.push_back(random_array(t.row, s.rows * s.inner, 1));
  c.arrays.push_back(random_array(t.column, s.columns * s.inner, 2));
  if (two) c.arrays.push_back(random_array(t.column, s.columns * s.inner, 3));
  c.arrays.push_back(make_array(t.result(), s.rows * s.columns));
  if (!two) c.arrays.push_back(random_array(DType::F32, s.columns, 4));
  return c;
}

const Sizes kSizes[] = {
    {128, 64, 256, 128, 32, 4, 1, 8}, {100, 72, 136, 128, 32, 3, 1, 8}, {3, 24, 64, 64, 16, 3, 1, 8},
    {64, 64, 512, 64, 64, 3, 2, 8},   {130, 40, 200, 128, 48, 3, 2, 4}, {5, 33, 320, 64, 32, 4, 1, 1},
    {9, 66, 72, 64, 48, 3, 2, 2},     {256, 64, 192, 256, 32, 3, 1, 8}, {201, 40, 200, 256, 48, 3, 2, 4},
};
const Sizes kFloat8Sizes[] = {
    {128, 64, 512, 128, 32, 4, 1, 8}, {100, 72, 272, 128, 32, 3, 1, 8}, {3, 24, 128, 64, 16, 3, 1, 8},
    {64, 64, 1024, 64, 64, 3, 2, 8},  {201, 40, 400, 256, 48, 3, 2, 4}, {256, 33, 640, 256, 32, 4, 1, 1},
};
constexpr Types kHalves[] = {{DType::BF16, DType::BF16}, {DType::F16, DType::F16}};
constexpr Types kFloat8[] = {{DType::F8E4M3FN, DType::F8E4M3FN},
                             {DType::F8E4M3FN, DType::F8E5M2},
                             {DType::F8E5M2, DType::F8E4M3FN},
                             {DType::F8E5M2, DType::F8E5M2}};

TEST(CudaProducts, EqualTheInterpreter) {
  std::vector<Case> cases;
  const auto add = [&](const Sizes& s, const Types& t) {
    cases.push_back(product_case(s, t, false));
    if (s.tile_columns <= 48) cases.push_back(product_case(s, t, true));
  };
  for (const Sizes& s : kSizes)
    for (const Types& t : kHalves) add(s, t);
  for (size_t i = 0; i < std::size(kFloat8Sizes); ++i) {
    add(kFloat8Sizes[i], kFloat8[0]);
    add(kFloat8Sizes[i], kFloat8[1 + i % 3]);
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

// Products of float8 matrices: scales of a matrix or of each row and column, a bias, and what is fused with them.
TEST(CudaProducts, OfScaledPlans) {
  const std::string inputs = R"(input %0 : f8e4m3fn[150, 208]@D = argument "x" aligned 16
input %1 : f8e4m3fn[80, 208]@D = argument "w" aligned 16
input %2 : f8e4m3fn[80, 208]@D = argument "v" aligned 16
input %3 : f32[]@D = argument "sx"
input %4 : f32[1]@D = argument "sw"
input %5 : f32[150, 1]@D = argument "rx"
input %6 : f32[1, 80]@D = argument "rw"
input %7 : bf16[80]@D = argument "b" aligned 16
input %8 : f8e5m2[80, 208]@D = argument "u" aligned 16
input %20 : f8e4m3fn[208, 80]@D = argument "t" aligned 16
%9 : f8e4m3fn[208, 80]{1, 208}@D = aten::permute(%1, [1, 0])
%10 : f8e4m3fn[208, 80]{1, 208}@D = aten::permute(%2, [1, 0])
%11 : f8e5m2[208, 80]{1, 208}@D = aten::permute(%8, [1, 0])
)";
  const auto plan_of = [&](const std::string& program) {
    std::vector<Case> cases;
    add_plan(cases, inputs + program, 4, 2e-2);
    return cases;
  };
  std::vector<Case> all;
  // Quantises rows, then multiplies them: the product reads what the kernel before it stores.
  std::vector<Case> two = plan_of(R"(%12 : bf16[150, 208]@D = aten::_to_copy(%0, dtype=dtype.bf16)
%13 : bf16[150, 1]@D = aten::amax(%12, [1], true)
%14 : bf16[150, 208]@D = aten::div.Tensor(%12, %13)
%15 : f8e4m3fn[150, 208]@D = aten::_to_copy(%14, dtype=dtype.f8e4m3fn)
%16 : f32[150, 1]@D = aten::_to_copy(%13, dtype=dtype.f32)
%18 : bf16[150, 80]@D = aten::_scaled_mm(%15, %9, %16, %6, none, none, dtype.bf16)
output %18
)");
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[1].kernel->product.rows, 256) << two[1].name;
  all.push_back(std::move(two[1]));
  for (const char* program : {
           "%12 : bf16[150, 80]@D = aten::_scaled_mm(%0, %9, %3, %4, %7, none, dtype.bf16)\noutput %12\n",
           "%12 : f32[150, 80]@D = aten::_scaled_mm(%0, %11, %3, %4, none, none, dtype.f32, true)\noutput %12\n",
           "%12 : bf16[150, 80]@D = aten::_scaled_mm(%0, %9, %5, %6, none, none, dtype.bf16)\n"
           "%13 : bf16[150, 80]@D = aten::silu(%12)\n"
           "%14 : bf16[150, 80]@D = aten::_scaled_mm(%0, %10, %5, %6, %7, none, dtype.bf16)\n"
           "%15 : bf16[150, 80]@D = aten::mul.Tensor(%13, %14)\noutput %15\n",
       }) {
    std::vector<Case> cases = plan_of(program);
    ASSERT_EQ(cases.size(), 1u) << program;
    EXPECT_EQ(cases[0].kernel->product.rows, 256) << program;
    all.push_back(std::move(cases[0]));
  }
  expect_same(std::move(all));

  // Calls: scales that ATen does not take together, types that it refuses, a weight that is not transposed, a float8
  // result.
  for (const char* program : {
           "%12 : bf16[150, 80]@D = aten::_scaled_mm(%0, %9, %3, %6, none, none, dtype.bf16)\noutput %12\n",
           "%12 : f16[150, 80]@D = aten::_scaled_mm(%0, %9, %5, %6, none, none, dtype.f16)\noutput %12\n",
           "%12 : f16[150, 80]@D = aten::_scaled_mm(%0, %9, %3, %4, %7, none, dtype.f16)\noutput %12\n",
           "%12 : f8e4m3fn[150, 80]@D = aten::_scaled_mm(%0, %9, %3, %4)\noutput %12\n",
           "%12 : bf16[150, 80]@D = aten::_scaled_mm(%0, %20, %3, %4, none, none, dtype.bf16)\noutput %12\n",
       })
    for (const Case& c : plan_of(program)) EXPECT_EQ(c.kernel->product.rows, 0) << program;
}

// Two products of the same rows are one kernel where each alone is a call: the library is as fast for one.
TEST(CudaProducts, TogetherThatAreCallsAlone) {
  const std::string inputs = R"(input %0 : f8e4m3fn[256, 4096]@D = argument "x" aligned 16
input %1 : f8e4m3fn[7168, 4096]@D = argument "w" aligned 16
input %2 : f8e4m3fn[7168, 4096]@D = argument "v" aligned 16
input %3 : f32[]@D = argument "s"
%4 : f8e4m3fn[4096, 7168]{1, 4096}@D = aten::permute(%1, [1, 0])
%5 : f8e4m3fn[4096, 7168]{1, 4096}@D = aten::permute(%2, [1, 0])
%6 : bf16[256, 7168]@D = aten::_scaled_mm(%0, %4, %3, %3, none, none, dtype.bf16)
%7 : bf16[256, 7168]@D = aten::silu(%6)
%8 : bf16[256, 7168]@D = aten::_scaled_mm(%0, %5, %3, %3, none, none, dtype.bf16)
)";
  schedule::Options options;
  options.target = machine::cuda_target_of(90);
  options.target.threads = 132;  // an H100
  options.target.l1_bytes = 228 << 10;
  options.target.memory_bytes_per_ns = 3350;
  const auto plan_of = [&](const char* rest) {
    return schedule::make_plan(*on_device("cuda:0", inputs + rest), options);
  };
  const auto together = plan_of("%9 : bf16[256, 7168]@D = aten::mul.Tensor(%7, %8)\noutput %9\n");
  ASSERT_EQ(together.steps.size(), 1u) << schedule::print(together);
  const loops::Kernel& k = *std::get<schedule::KernelStep>(together.steps[0]).kernel;
  EXPECT_EQ(k.product.rows, 256);
  EXPECT_EQ(loops::product_sums(k).size(), 2u);
  const auto calls = [](const schedule::Plan& plan) {
    return std::count_if(plan.steps.begin(), plan.steps.end(),
                         [](const auto& s) { return std::holds_alternative<schedule::ExternStep>(s); });
  };
  EXPECT_EQ(calls(plan_of("output %7\noutput %8\n")), 2);
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
                     .computes_product = [](DType, int64_t, int64_t, int64_t) { return false; }},
                    true);
  EXPECT_EQ(graph::print(*apart).find("aten::cat"), std::string::npos);
  graph::run_passes(*g,
                    {.options = user,
                     .device = DeviceType::CUDA,
                     .computes_product = [](DType, int64_t, int64_t, int64_t) { return true; }},
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
  const std::tuple<Sizes, Types, bool> kernels[] = {
      {{128, 4096, 4096, 128, 32, 8, 1, 8}, kHalves[0], false},
      {{128, 4096, 14336, 128, 64, 8, 2, 8}, kHalves[0], false},
      {{128, 14336, 4096, 128, 112, 5, 1, 8}, kHalves[0], true},
      {{16, 4096, 4096, 64, 48, 8, 1, 8}, kHalves[0], false},
      {{256, 4096, 4096, 256, 64, 5, 2, 8}, kHalves[1], false},
      {{256, 14336, 4096, 256, 80, 4, 1, 8}, kHalves[0], true},
      {{256, 7168, 4096, 256, 56, 4, 1, 8}, kFloat8[0], true},
      {{200, 7168, 4096, 256, 112, 4, 2, 8}, kFloat8[1], false},
      {{128, 7168, 4096, 128, 80, 5, 1, 8}, kFloat8[2], true},
      {{64, 7168, 4096, 64, 64, 8, 1, 8}, kFloat8[3], false},
  };
  for (const auto& [s, t, two] : kernels) {
    const Case c = product_case(s, t, two);
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
