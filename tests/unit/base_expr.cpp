#include <gtest/gtest.h>

#include <random>

#include "base/expr.h"
#include "vesta/error.h"

namespace vesta {
namespace {

struct ExprTest : ::testing::Test {
  ExprContext c;
  Expr s0 = c.size_symbol("s0", 8);
  Expr s1 = c.size_symbol("s1", 5);
  Expr i = c.loop_symbol("i", 12);
  Expr j = c.loop_symbol("j", 64);
  Expr r = c.loop_symbol("r", s0);
  Expr q = c.loop_symbol("q", s1);
};

TEST_F(ExprTest, EqualExpressionsAreIdentical) {
  EXPECT_EQ((s0 + s1) * (s0 + s1), s0 * s0 + s1 * s1 + 2 * s0 * s1);
  EXPECT_EQ(s0 - s0, Expr(0));
  EXPECT_EQ(s0 * 4 + 3 - s0 * 3, s0 + 3);
  EXPECT_NE(s0 * 2, s0 + 2);
}

TEST_F(ExprTest, PrintsAndParsesBack) {
  for (Expr e : {4 * s0 + floordiv(s1, 2) + 3, mod(s0, 3) * s1 - 7, min(s0, s1) + max(s0, 2 * s1), -s0, Expr(-5),
                 floordiv(s0 * s1 + 1, s0 + s1)}) {
    EXPECT_EQ(parse_expr(c, to_string(e)), e) << to_string(e);
  }
  EXPECT_EQ(to_string(4 * s0 + floordiv(s1, 2) + 3), "4*s0 + (s1 // 2) + 3");
  EXPECT_THROW(parse_expr(c, "s0 + nobody"), UserError);
  EXPECT_THROW(parse_expr(c, "s0 +"), UserError);
}

TEST_F(ExprTest, DivisionsOfFlattenedIndicesVanish) {
  Expr flat = i * 64 + j;
  EXPECT_EQ(floordiv(flat, 64), i);
  EXPECT_EQ(mod(flat, 64), j);
  EXPECT_EQ(floordiv(flat, 128), floordiv(i, 2));
  EXPECT_EQ(mod(flat, 128), 64 * mod(i, 2) + j);
  EXPECT_EQ(floordiv(flat, 16), 4 * i + floordiv(j, 16));
  EXPECT_EQ(floordiv(flat, 64 * 12), Expr(0));
  EXPECT_EQ(mod(flat, 64 * 12), flat);
}

TEST_F(ExprTest, DivisionsBySymbolicSizesVanish) {
  Expr flat = r * s1 + q;
  EXPECT_EQ(floordiv(flat, s1), r);
  EXPECT_EQ(mod(flat, s1), q);
  EXPECT_EQ(floordiv(flat * 4 + mod(j, 4), s1 * 4), r);
  EXPECT_EQ(floordiv(flat, s0 * s1), Expr(0));
}

TEST_F(ExprTest, QuotientAndRemainderRecombine) {
  EXPECT_EQ(floordiv(j, 16) * 16 + mod(j, 16), j);
  EXPECT_EQ(floordiv(j, 16) * 48 + 3 * mod(j, 16), 3 * j);
  Expr three = floordiv(j, 16) * 16 + mod(floordiv(j, 4), 4) * 4 + mod(j, 4);
  EXPECT_EQ(three, j);
  Expr x = floordiv(s0 * q, s1);
  EXPECT_EQ(floordiv(x, 7) * 7 + mod(x, 7), x);
  EXPECT_EQ(5 * floordiv(mod(j, 12), 3) * 3 + 5 * mod(j, 3), 5 * mod(j, 12));
  EXPECT_NE(floordiv(mod(j, 10), 3) * 3 + mod(j, 3), mod(j, 10));  // 3 does not divide 10
}

TEST_F(ExprTest, NestedDivisionsJoin) {
  EXPECT_EQ(floordiv(floordiv(s0, 3), 5), floordiv(s0, 15));
  EXPECT_EQ(mod(mod(s0, 12), 4), mod(s0, 4));
}

TEST_F(ExprTest, ProvesWhatFollowsFromRanges) {
  EXPECT_TRUE(provably_less(j, 64));
  EXPECT_FALSE(provably_less(j, 63));
  EXPECT_TRUE(provably_less(r * s1 + q, s0 * s1));
  EXPECT_TRUE(provably_at_least(s0 * s1, s0 + s1));
  EXPECT_FALSE(provably_at_least(s0, s1));
  EXPECT_TRUE(provably_divisible(6 * s0 * s1, 3 * s1));
  EXPECT_FALSE(provably_divisible(s0, 2));
  EXPECT_EQ(max(s0, 1), s0);
  EXPECT_EQ(lower_bound(s0 * s1), 4);
  EXPECT_EQ(upper_bound(mod(s0, 5)), 4);
}

TEST_F(ExprTest, CoefficientOfAffineIndices) {
  EXPECT_EQ(coefficient_of(s1 * r + 3 * j + 2, r), s1);
  EXPECT_EQ(coefficient_of(s1 * r + 3 * j + 2, j), Expr(3));
  EXPECT_EQ(coefficient_of(s1 * r, j), Expr(0));
  EXPECT_EQ(coefficient_of(floordiv(s0 + j, 2), j), std::nullopt);
}

TEST_F(ExprTest, RefusesOverflowAndDivisionByZero) {
  EXPECT_THROW(Expr(int64_t{1} << 61) * 8, UserError);
  EXPECT_THROW(floordiv(s0, 0), UserError);
}

TEST_F(ExprTest, CompiledProgramComputesTheSame) {
  Expr e = floordiv(s0 * s1 + 3, 4) * 2 + max(s0, s1) - mod(s1, 3);
  ExprProgram p = compile(e, [&](Expr s) { return s == s0 ? 0 : 1; });
  for (int64_t a = 2; a < 20; ++a) {
    for (int64_t b = 2; b < 20; ++b) {
      int64_t values[] = {a, b};
      EXPECT_EQ(p.run(values), (a * b + 3) / 4 * 2 + std::max(a, b) - b % 3);
    }
  }
}

// Random expressions, simplified while they are built, against plain evaluation of what was asked for.
TEST_F(ExprTest, SimplificationKeepsValues) {
  std::mt19937 rng(20260901);
  auto pick = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 3000; ++round) {
    int64_t v[] = {2 + pick(9), 2 + pick(9), 0, 0, 0, 0};
    v[2] = pick(12), v[3] = pick(64), v[4] = pick(static_cast<int>(v[0])), v[5] = pick(static_cast<int>(v[1]));
    Expr symbols[] = {s0, s1, i, j, r, q};
    std::vector<std::pair<Expr, int64_t>> pool;
    for (int k = 0; k < 6; ++k) pool.emplace_back(symbols[k], v[k]);
    for (int64_t k : {1, 2, 3, 4, 16, 64}) pool.emplace_back(k, k);
    for (int step = 0; step < 8; ++step) {
      auto [a, x] = pool[static_cast<size_t>(pick(static_cast<int>(pool.size())))];
      auto [b, y] = pool[static_cast<size_t>(pick(static_cast<int>(pool.size())))];
      auto floor_div = [](int64_t n, int64_t d) { return n / d - ((n % d != 0) && ((n < 0) != (d < 0))); };
      if (std::abs(x) > 1000000 || std::abs(y) > 1000000) continue;
      switch (pick(7)) {
        case 0: pool.emplace_back(a + b, x + y); break;
        case 1: pool.emplace_back(a * b, x * y); break;
        case 2: pool.emplace_back(a - b, x - y); break;
        case 3:
        case 4:
          if (lower_bound(b).value_or(0) < 1) break;
          pool.emplace_back(floordiv(a, b), floor_div(x, y));
          pool.emplace_back(mod(a, b), x - y * floor_div(x, y));
          break;
        case 5: pool.emplace_back(min(a, b), std::min(x, y)); break;
        default: pool.emplace_back(max(a, b), std::max(x, y)); break;
      }
    }
    for (auto& [e, expected] : pool) {
      int64_t got = evaluate(e, [&](Expr s) {
        for (int k = 0; k < 6; ++k) {
          if (symbols[k] == s) return v[k];
        }
        return int64_t{0};
      });
      ASSERT_EQ(got, expected) << to_string(e) << " with s0=" << v[0] << " s1=" << v[1] << " i=" << v[2]
                               << " j=" << v[3] << " r=" << v[4] << " q=" << v[5];
      if (auto lo = lower_bound(e)) {
        ASSERT_GE(got, *lo) << to_string(e);
      }
      if (auto hi = upper_bound(e)) {
        ASSERT_LE(got, *hi) << to_string(e);
      }
    }
  }
}

// In a file there may be any program: what the processor refuses is an error.
TEST(ExprProgram, OverflowsAreErrors) {
  using Code = ExprProgram::Code;
  const auto run = [](int64_t a, int64_t b, Code code) {
    return ExprProgram{{{Code::Constant, a}, {Code::Constant, b}, {code}}}.run({});
  };
  EXPECT_EQ(run(INT64_MIN, 1, Code::FloorDiv), INT64_MIN);
  for (const Code code : {Code::FloorDiv, Code::Mod}) {
    EXPECT_THROW(run(INT64_MIN, -1, code), UserError);
    EXPECT_THROW(run(1, 0, code), UserError);
  }
  EXPECT_THROW(run(INT64_MAX, 1, Code::Add), UserError);
  EXPECT_THROW(run(INT64_MAX, 2, Code::Mul), UserError);
}

}  // namespace
}  // namespace vesta
