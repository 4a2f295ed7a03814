// Which pointwise kernels compute row by row (schedule/rows_apart.h). Others have an Inner range: they compute a vector
// of columns for many rows.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/graph.h"
#include "schedule/plan.h"

namespace vesta::schedule {
namespace {

bool computes_rows_together(const std::string& text) {
  const auto g = graph::parse(text);
  graph::verify(*g);
  Options options;
  options.target.vector_bytes = 32;
  const Plan plan = make_plan(*g, options);
  EXPECT_EQ(plan.steps.size(), 1U) << print(plan);
  const auto& ranges = std::get<KernelStep>(plan.steps.at(0)).kernel->ranges;
  return std::ranges::any_of(ranges, [](const loops::Range& r) { return r.kind == loops::RangeKind::Inner; });
}

// Multiplies a part of each row by a value for each column, or by its negative.
std::string part(int64_t columns, bool negative = false) {
  return fmt::format(R"(
input %0 : f32[64, 300] = argument "x"
input %1 : f32[{0}] = argument "w"
%2 : f32[64, {0}]{{300, 1}} = aten::slice.Tensor(%0, 1, 3, {1}, 1)
%3 : f32[{0}] = aten::neg(%1)
%4 : f32[64, {0}] = aten::mul.Tensor(%2, {2})
output %4
)",
                     columns, columns + 3, negative ? "%3" : "%1");
}

std::string padded(int64_t columns) {
  return fmt::format(R"(
input %0 : f32[64, {0}] = argument "x"
%1 : f32[64, {1}] = aten::constant_pad_nd(%0, [1, 1], 0)
output %1
)",
                     columns, columns + 2);
}

TEST(RowsApart, LongRows) {
  EXPECT_FALSE(computes_rows_together(part(200)));
  EXPECT_FALSE(computes_rows_together(part(250)));
  EXPECT_TRUE(computes_rows_together(part(40)));
}

TEST(RowsApart, UnlessColumnsHaveValuesToCompute) { EXPECT_TRUE(computes_rows_together(part(200, true))); }

// The code generator divides the rows.
TEST(RowsApart, WhereConditionsChangeOnce) {
  EXPECT_FALSE(computes_rows_together(padded(198)));
  EXPECT_TRUE(computes_rows_together(padded(30)));
}

}  // namespace
}  // namespace vesta::schedule
