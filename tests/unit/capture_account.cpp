// When the account of a function's compiles allows one more. No clock is read: the tests say how long things took.
#include <gtest/gtest.h>

#include "capture/entry/compile_account.h"

namespace vesta::capture {
namespace {

bool allows(const CompileAccount& account, double ms) { return account.why_not(ms).empty(); }

TEST(CompileAccount, TwoSecondsAreNotCounted) {
  CompileAccount account(0.2);
  account.compiled(100, false);
  EXPECT_TRUE(allows(account, 2000));
  EXPECT_FALSE(allows(account, 2001));
  account.compiled(1500, true);
  EXPECT_TRUE(allows(account, 500));
  EXPECT_FALSE(allows(account, 501));
}

TEST(CompileAccount, TwiceTheFirstCompilesAreNotCounted) {
  CompileAccount account(0.2);
  for (int i = 0; i < 3; ++i) account.compiled(5000, false);
  EXPECT_TRUE(allows(account, 30'000));
  EXPECT_FALSE(allows(account, 30'001));
}

TEST(CompileAccount, TimeOfCallsAllowsMore) {
  CompileAccount account(0.2);
  account.compiled(100, false);
  account.compiled(2000, true);
  EXPECT_FALSE(allows(account, 100));
  account.ran(499, 1);
  EXPECT_FALSE(allows(account, 100));
  account.ran(2, 1);
  EXPECT_TRUE(allows(account, 100));
  account.clear();
  EXPECT_TRUE(allows(account, 2000));
}

TEST(CompileAccount, NoShareIsNoBound) {
  CompileAccount account(-1);
  account.compiled(1e9, true);
  EXPECT_TRUE(allows(account, 1e9));
  EXPECT_FALSE(allows(CompileAccount(0), 2001));
}

// What short calls take is estimated from some of them.
TEST(CompileAccount, TheTimeOfShortCallsIsEstimated) {
  CompileAccount account(1);
  account.compiled(0, false);
  int64_t timed = 0;
  for (int64_t call = 1; call <= 310'000; ++call) {
    const int64_t weight = account.weight(call);
    if (weight > 0) account.ran(0.01, weight), ++timed;
  }
  EXPECT_LT(timed, 11'000);
  EXPECT_TRUE(allows(account, 2000 + 3090));
  EXPECT_FALSE(allows(account, 2000 + 3110));
}

TEST(CompileAccount, LongCallsAreAllMeasured) {
  CompileAccount account(1);
  for (int64_t call = 1; call <= 1000; ++call) {
    EXPECT_EQ(account.weight(call), 1);
    account.ran(1, 1);
  }
  EXPECT_FALSE(allows(account, 2000 + 1001));
}

TEST(CompileAccount, LongAndShortCallsInTurn) {
  CompileAccount account(1);
  for (int64_t call = 1; call <= 310'000; ++call)
    if (const int64_t weight = account.weight(call); weight > 0) account.ran(call % 2 ? 0.1 : 0.001, weight);
  EXPECT_TRUE(allows(account, 2000 + 0.9 * 15'655));
  EXPECT_FALSE(allows(account, 2000 + 1.1 * 15'655));
}

}  // namespace
}  // namespace vesta::capture
