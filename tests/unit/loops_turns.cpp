// Conditions that change once along a row (loops/turns.h).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "loops/turns.h"

namespace vesta::loops {
namespace {

// The turns of `index OP constant` along 100 columns.
Turns turns_of(const std::string& index, const std::string& op, int64_t constant) {
  const auto k = parse_kernel(fmt::format(R"(kernel
range p0 parallel 8
range p1 parallel 100
buffer b0 bool write
stage
  %0 = index i64 [{}]
  %1 = const i64 {}
  %2 = {} i64 %0 %1
  store bool b0[100*p0 + p1] %2
)",
                                          index, constant, op));
  return turns_along(k->instrs, k->ranges[1].var, k->ranges[1].var, 100);
}

TEST(Turns, ArePlacesWhereAComparisonChanges) {
  for (const std::string index : {"p1", "p1 - 20", "30 - p1"})
    for (const std::string op : {"lt", "le", "gt", "ge"})
      for (const int64_t constant : {-25, 0, 1, 50, 99, 200}) {
        SCOPED_TRACE(fmt::format("{} {} {}", index, op, constant));
        const Turns turns = turns_of(index, op, constant);
        ASSERT_EQ(turns.conditions.size(), 1U);
        const Turn turn = turns.conditions.begin()->second;
        EXPECT_EQ(turns.places.size(), turn.place > 0 && turn.place < 100 ? 1U : 0U);
        for (int64_t p1 = 0; p1 < 100; ++p1) {
          const int64_t x = index == "p1" ? p1 : index == "p1 - 20" ? p1 - 20 : 30 - p1;
          const bool holds = op == "lt"   ? x < constant
                             : op == "le" ? x <= constant
                             : op == "gt" ? x > constant
                                          : x >= constant;
          EXPECT_EQ((p1 < turn.place) == turn.before, holds) << p1;
        }
      }
}

TEST(Turns, OtherConditionsHaveNone) {
  for (const auto& [index, op] :
       {std::pair{"p1", "eq"}, {"p1", "ne"}, {"p0", "lt"}, {"p0 + p1", "lt"}, {"2*p1", "lt"}, {"p1 // 4", "lt"}})
    EXPECT_TRUE(turns_of(index, op, 10).conditions.empty()) << index << ' ' << op;
}

TEST(Turns, OfFewPlacesInLongRowsDivide) {
  const Turns one = turns_of("p1", "lt", 10), none = turns_of("p1", "lt", 200);
  EXPECT_TRUE(divides_row(one, 12, 20));
  EXPECT_FALSE(divides_row(none, 12, 20));
  EXPECT_FALSE(divides_row(one, 3, 20));
  EXPECT_FALSE(divides_row(one, 12, 1000));
}

}  // namespace
}  // namespace vesta::loops
