// Sums that need no pass of their own over a row (loops/online.h), in the CUDA C++ of kernels, run on the CPU.
#include "cuda_cases.h"
#include "loops/online.h"

namespace vesta::codegen::testing {
namespace {

// Rows that are kept nowhere: the loop of the maximum computes the sum too. Also of infinities and of what is no
// number.
TEST(CudaOnline, SumsInTheLoopOfTheMaximum) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<Case> cases;
  for (const auto& [dtype, columns] : {std::pair("f32", 40002), {"f32", 40960}, {"bf16", 81001}, {"f64", 22501}}) {
    add_plan(cases, softmax_text(40, columns, dtype), 300, std::string_view(dtype).starts_with("f") ? 1e-5 : 1e-2, 80);
    const loops::Kernel& k = *cases.back().kernel;
    EXPECT_EQ(k.online.size(), 1u) << loops::print(k);
    EXPECT_EQ(loops::print(*loops::parse_kernel(loops::print(k))), loops::print(k));
  }
  // Nor are shorter ones, where nothing else needs them.
  for (const auto& [dtype, columns] : {std::pair("f32", 4096), {"f32", 33}, {"bf16", 8192}, {"f64", 700}}) {
    add_decomposed(
        cases,
        fmt::format("input %0 : {0}[40, {1}]@D = argument \"x\" aligned 16\n%1 : {0}[40]@D = aten::logsumexp(%0, [1], "
                    "false)\noutput %1\n",
                    dtype, columns),
        300, std::string_view(dtype).starts_with("f") ? 1e-5 : 1e-2);
    const loops::Kernel& k = *cases.back().kernel;
    ASSERT_EQ(k.online.size(), 1u) << loops::print(k);
    EXPECT_TRUE(k.online[0].kind == loops::OnlineKind::FiniteExp && k.row_slots.empty()) << loops::print(k);
    EXPECT_EQ(loops::print(*loops::parse_kernel(loops::print(k))), loops::print(k));
  }
  for (Case& c : cases) {
    Array& x = c.arrays.at(0);
    const int64_t n = x.size() / 40;
    const auto set = [&](int64_t row, int64_t at, float v) { x.set(row * n + at, loops::from_double(x.dtype, v)); };
    for (int64_t i = 0; i < n; ++i) {
      set(1, i, -inf);
      set(2, i, i == n - 1 ? 3.0F : -inf);
      set(3, i, i == 5 ? 3.0F : -inf);
      set(6, i, static_cast<float>(i) / 1000);
      set(7, i, static_cast<float>(-i) * 1e30F);
      set(10, i, -3.38e38F);
    }
    set(4, n - 4, inf);
    set(5, n / 2, nan);
    set(8, 0, inf);
    set(8, 1, inf);
    set(9, n - 3, -inf);
  }
  expect_same(std::move(cases));
}

// The loop of a mean computes the variance too. Also where the first elements are far from the mean, where the mean is
// far from 0, and with infinities and what is no number.
TEST(CudaOnline, VariancesInTheLoopOfTheMean) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<Case> cases;
  for (const auto& [dtype, columns] : {std::pair("f32", 60002), {"f32", 61440}, {"bf16", 120001}, {"f64", 30001}}) {
    add_decomposed(cases,
                   fmt::format("input %0 : {0}[40, {1}]@D = argument \"x\" aligned 16\n%1 : {0}[40, {1}]@D = "
                               "aten::layer_norm(%0, [{1}], none, none, 1e-05, true)\noutput %1\n",
                               dtype, columns),
                   1, std::string_view(dtype).starts_with("f") ? 1e-3 : 2e-2, 80);
    const loops::Kernel& k = *cases.back().kernel;
    ASSERT_EQ(k.online.size(), 1u) << loops::print(k);
    EXPECT_EQ(k.online[0].kind, loops::OnlineKind::Squares);
    EXPECT_EQ(loops::print(*loops::parse_kernel(loops::print(k))), loops::print(k));
  }
  // Shorter rows, which nothing else needs, and columns.
  for (const int dim : {1, 0})
    for (const char* dtype : {"f32", "f64"}) {
      add_decomposed(
          cases,
          fmt::format("input %0 : {0}[40, 700]@D = argument \"x\" aligned 16\n%1 : {0}[{2}]@D, %2 : {0}[{2}]@D "
                      "= aten::var_mean.correction(%0, [{1}], correction=1, keepdim=false)\noutput %1\n"
                      "output %2\n",
                      dtype, dim, dim == 1 ? 40 : 700),
          1, 1e-3);
      EXPECT_EQ(cases.back().kernel->online.size(), 1u) << loops::print(*cases.back().kernel);
    }
  for (Case& c : cases) {
    Array& x = c.arrays.at(0);
    const int64_t n = x.size() / 40;
    const auto set = [&](int64_t row, int64_t at, float v) { x.set(row * n + at, loops::from_double(x.dtype, v)); };
    for (int64_t i = 0; i < n; ++i) {
      set(1, i, 7);
      set(2, i, x.dtype == DType::BF16 ? 1.0F : 1000 + static_cast<float>(i % 7));
      set(3, i, static_cast<float>(i % 5));
    }
    set(3, 0, 1e4F);
    set(4, n / 2, -1e4F);
    set(5, n / 3, nan);
    set(6, 0, inf);
    set(7, n - 1, -inf);
  }
  expect_same(std::move(cases));
}

// A thread has several columns. Columns whose first element is far from the others keep their precision, and columns of
// equal elements have the variance 0.
TEST(CudaOnline, VariancesOfNeighbouringColumns) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<Case> cases;
  for (const char* dtype : {"f32", "bf16", "f64"})
    for (const auto& [rows, columns] : {std::pair(64, 4096), {700, 296}, {1001, 72}, {96, 8704}}) {
      const std::string_view wide = std::string_view(dtype) == "f64" ? "f64" : "f32";
      add_plan(cases,
               fmt::format(R"(input %0 : {0}[{2}, {3}]@D = argument "x" aligned 16
%1 : {1}[{2}, {3}]@D = aten::_to_copy(%0, dtype=dtype.{1})
%2 : {1}[1, {3}]@D = aten::sum.dim_IntList(%1, [0], true)
%3 : {1}[1, {3}]@D = aten::div.Scalar(%2, {2})
%4 : {1}[{2}, {3}]@D = aten::sub.Tensor(%1, %3)
%5 : {1}[{2}, {3}]@D = aten::mul.Tensor(%4, %4)
%6 : {1}[1, {3}]@D = aten::sum.dim_IntList(%5, [0], true)
output %3
output %6
)",
                           dtype, wide, rows, columns),
               300, 1e-3);
      Case& c = cases.back();
      ASSERT_EQ(c.kernel->online.size(), 1U) << loops::print(*c.kernel);
      EXPECT_TRUE(c.kernel->threads.across && c.kernel->threads.each > 1) << loops::print(*c.kernel);
      Array& x = c.arrays.at(0);
      const auto set = [&, n = columns](int64_t row, int64_t column, float v) {
        x.set(row * n + column, loops::from_double(x.dtype, v));
      };
      for (int64_t i = 0; i < rows; ++i) {
        set(i, 1, 4096);
        set(i, 2, i == 0 ? 1e4F : static_cast<float>(i % 5));
        set(i, 3, 512 + static_cast<float>(i % 3));
      }
      set(rows / 2, 4, -1e4F);
      set(rows / 3, 5, nan);
      set(0, 6, inf);
      set(rows - 1, 7, -inf);
    }
  expect_same(std::move(cases));
}

}  // namespace
}  // namespace vesta::codegen::testing
