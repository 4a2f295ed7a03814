// Columns that threads of a GPU take several of at once, in the CUDA C++ of kernels, run on the CPU.
#include "cuda_cases.h"

namespace vesta::codegen::testing {
namespace {

// Few columns: a thread has several side by side, and many threads go down.
TEST(CudaColumns, FewColumns) {
  std::vector<Case> cases;
  for (const char* dtype : {"f32", "bf16", "f16", "f64"})
    for (const auto& [rows, columns] : {std::pair(64, 64), {700, 296}, {1030, 72}}) {
      const bool narrow = std::string_view(dtype).ends_with("16");
      const auto text = [&](std::string_view body) {
        return fmt::format("input %0 : {0}[{1}, {2}]@D = argument \"x\" aligned 16\n{3}", dtype, rows, columns, body);
      };
      const std::string all = fmt::format("{}[{}, {}]@D", dtype, rows, columns),
                        one = fmt::format("{}[1, {}]@D", dtype, columns);
      add_plan(cases,
               text(fmt::format("%1 : {} = aten::sum.dim_IntList(%0, [0], true)\n%2 : {} = aten::tanh(%1)\noutput %2\n",
                                one, one)),
               60, narrow ? 1e-1 : 1e-2);
      // A running maximum and its sum, and a loop that stores.
      add_plan(cases,
               text(fmt::format(R"(%1 : {1} = aten::amax(%0, [0], true)
%2 : {0} = aten::sub.Tensor(%0, %1)
%3 : {0} = aten::exp(%2)
%4 : {1} = aten::sum.dim_IntList(%3, [0], true)
%5 : {0} = aten::div.Tensor(%3, %4)
output %5
)",
                                all, one)),
               300, narrow ? 1e-2 : 1e-5);
      add_plan(cases, text(fmt::format("%1 : i64[{}]@D = aten::argmax(%0, 0, false)\noutput %1\n", columns)), 0);
      // Values common to the columns of a thread: a factor of each row, and its sum.
      add_plan(
          cases,
          text(fmt::format(R"(input %1 : f32[{2}, 1]@D = argument "w"
%2 : f32[{2}, {3}]@D = aten::expand(%1, [{2}, {3}])
%3 : f32[1, {3}]@D = aten::sum.dim_IntList(%2, [0], true)
%4 : {0} = aten::mul.Tensor(%0, %1)
%5 : {1} = aten::sum.dim_IntList(%4, [0], true)
%6 : {1} = aten::div.Tensor(%5, %3)
output %6
)",
                           std::string_view(dtype) == "f64" ? all : "f32" + all.substr(all.find('[')),
                           std::string_view(dtype) == "f64" ? one : "f32" + one.substr(one.find('[')), rows, columns)),
          300, 1);
    }
  for (const Case& c : cases) EXPECT_TRUE(c.kernel->threads.across && c.kernel->threads.each > 1) << c.name;
  expect_same(std::move(cases));
}

// Columns of several tensors, of which a thread has neighbours where all pieces begin at a multiple of their number.
TEST(CudaColumns, ColumnsOfPieces) {
  std::vector<Case> together, apart;
  for (const char* dtype : {"f32", "bf16", "f16", "f64"})
    for (const auto& [second, third] : {std::pair(64, 40), {62, 42}, {61, 43}}) {
      const std::string text = fmt::format(R"(input %0 : {0}[700, 96]@D = argument "x" aligned 16
input %1 : {0}[700, {1}]@D = argument "y" aligned 16
input %2 : {0}[700, {2}]@D = argument "z" aligned 16
%3 : {0}[700, 200]@D = aten::cat([%0, %1, %2], 1)
%4 : {0}[1, 200]@D = aten::sum.dim_IntList(%3, [0], true)
output %3
output %4
)",
                                           dtype, second, third);
      add_plan(second == 64 ? together : apart, text, 60, std::string_view(dtype).ends_with("16") ? 1e-1 : 1e-2);
    }
  for (const Case& c : together) EXPECT_TRUE(c.kernel->threads.across && c.kernel->threads.each > 1) << c.name;
  for (const Case& c : apart) EXPECT_TRUE(c.kernel->threads.across) << c.name;
  expect_same(std::move(together));
  expect_same(std::move(apart));
}

}  // namespace
}  // namespace vesta::codegen::testing
