// When a function is measured, and what its calls do then. No clock is read: the tests say how long calls took.
#include "capture/python/wrapper/profit.h"

#include <gtest/gtest.h>

#include <string>

namespace vesta::capture {
namespace {

using Run = Profit::Run;

Gain several_segments() {
  Gain gain;
  gain.segments = 3;
  return gain;
}

Gain one_segment() {
  Gain gain;
  gain.segments = 1;
  return gain;
}

Gain a_compile() {
  Gain gain = several_segments();
  gain.compiled = gain.passing = true;
  return gain;
}

// One call after another, as wrapper/captured_function.cpp makes them.
struct Calls {
  // Returns how the call ran; Original also for one that was not measured.
  Run call(const Gain& gain, double compiled_us, double original_us) {
    if (profit.keeps_original()) return Run::Original;
    const Run run = profit.next();
    if (run == Run::Original) {
      if (auto found = profit.learn_original(original_us)) reason = "its calls took " + text_of(*found);
    } else {
      profit.learn(run, gain, compiled_us);
    }
    return run;
  }
  // How many of these calls ran the original.
  int originals(int calls, const Gain& gain, double compiled_us, double original_us) {
    int out = 0;
    for (int i = 0; i < calls; ++i) out += call(gain, compiled_us, original_us) == Run::Original;
    return out;
  }
  Profit profit;
  std::string reason;
};

Samples samples(size_t n, double compiled, double original) {
  return {std::vector<double>(n, compiled), std::vector<double>(n, original)};
}

TEST(Profit, TimesNearTheLimitTakeMoreSamples) {
  EXPECT_FALSE(compare(samples(4, 10, 100)).faster.has_value());
  EXPECT_EQ(compare(samples(5, 10, 100)).faster, true);
  EXPECT_EQ(compare(samples(5, 200, 100)).faster, false);
  EXPECT_FALSE(compare(samples(14, 107, 100)).faster.has_value());
  EXPECT_EQ(compare(samples(15, 107, 100)).faster, false);
  EXPECT_EQ(compare(samples(15, 99, 100)).faster, true);
}

TEST(Profit, LongCallsTakeFewerSamples) {
  EXPECT_FALSE(compare(samples(2, 1e6, 1e6)).faster.has_value());
  EXPECT_EQ(compare(samples(3, 3e6, 1e6)).faster, false);
}

TEST(Profit, OneSlowCallDecidesNothing) {
  Samples s = samples(5, 50, 100);
  s.compiled[2] = 1e6;
  EXPECT_EQ(compare(s).faster, true);
  s.recompiles = true;  // its compile counts
  EXPECT_EQ(compare(s).faster, false);
}

TEST(Profit, WithGradientsTheBackwardHalfMayPay) {
  Samples s = samples(15, 120, 100);
  EXPECT_EQ(compare(s).faster, false);
  s.trains = true;
  EXPECT_EQ(compare(s).faster, true);
}

// A backward pass of ours takes longer than one operator of eager's, and less than many of them.
TEST(Profit, SmallBackwardPassesCost) {
  Gain gain;
  EXPECT_EQ(expected_backward_us(gain), 0);
  gain.backward_passes = 1;
  gain.backward_operators = 1;
  const double one = expected_backward_us(gain);
  EXPECT_GT(one, 3);
  EXPECT_LT(one, 10);
  gain.backward_passes = 2;
  EXPECT_GT(expected_backward_us(gain), one);
  gain.backward_operators = 10;
  EXPECT_EQ(expected_backward_us(gain), 0);

  for (const double us : {4.0, 400.0}) {
    Samples s = samples(15, us, us);
    s.trains = true;
    s.backward_us = one;
    EXPECT_EQ(compare(s).faster, us > 100);
  }
  EXPECT_EQ(text_of({3, 4, 6, false}),
            "3 us compiled, besides a backward pass that takes about 6 us longer, and 4 us uncompiled");
}

TEST(Profit, SlowCallsRunTheOriginalUntilTheNextMeasurement) {
  Calls calls;
  EXPECT_EQ(calls.originals(8, several_segments(), 200, 100), 0);
  EXPECT_EQ(calls.originals(12, several_segments(), 200, 100), 6);
  EXPECT_EQ(calls.reason, "its calls took 200 us compiled and 100 us uncompiled");
  EXPECT_EQ(calls.originals(999, several_segments(), 200, 100), 999);
  EXPECT_EQ(calls.originals(12, several_segments(), 200, 100), 6);
  EXPECT_EQ(calls.originals(1999, several_segments(), 200, 100), 1999);  // twice as many
  EXPECT_EQ(calls.originals(12, several_segments(), 50, 100), 6);
  EXPECT_EQ(calls.originals(5000, several_segments(), 50, 100), 0);
}

TEST(Profit, LongAndShortCallsInTurn) {
  Calls calls;
  int originals = 0;
  for (int i = 0; i < 5000; ++i) {
    const double factor = i % 2 ? 1 : 1000;
    originals += calls.call(several_segments(), factor * 50, factor * 100) == Run::Original;
  }
  EXPECT_LT(originals, 16);
}

TEST(Profit, CallsThatAreCountedInACounter) {
  Calls calls;
  calls.originals(20, several_segments(), 200, 100);
  totals::Tally tally{totals::of(totals::Count::Aside)};
  calls.profit.count_in(&tally);
  calls.originals(7, several_segments(), 200, 100);
  EXPECT_EQ(tally.value(), 7);
}

TEST(Profit, OneGraphIsMeasuredAfterMoreCalls) {
  Calls calls;
  EXPECT_EQ(calls.originals(16, one_segment(), 200, 100), 0);
  EXPECT_EQ(calls.originals(12, one_segment(), 200, 100), 6);
  EXPECT_EQ(calls.originals(22, one_segment(), 200, 100), 22);
}

TEST(Profit, NearTheLimitOneGraphIsSettledWithin50Calls) {
  for (const double compiled : {99.0, 101.0}) {
    Calls calls;
    calls.originals(49, one_segment(), compiled, 100);
    EXPECT_EQ(calls.originals(900, one_segment(), compiled, 100), compiled > 100 ? 900 : 0);
  }
}

TEST(Profit, OneUncompiledCallTellsThatALongOneGains) {
  Calls calls;
  EXPECT_EQ(calls.originals(16, one_segment(), 2'000, 4'000), 0);
  EXPECT_EQ(calls.originals(5000, one_segment(), 2'000, 4'000), 1);
  Calls longer;
  EXPECT_EQ(longer.originals(32, one_segment(), 50'000, 100'000), 0);
  EXPECT_EQ(longer.originals(5000, one_segment(), 50'000, 100'000), 1);
  EXPECT_EQ(compare(samples(1, 2'000, 4'000)).faster, true);
  EXPECT_FALSE(compare(samples(1, 2'000, 2'900)).faster.has_value());
  EXPECT_FALSE(compare(samples(1, 20, 40)).faster.has_value());
  EXPECT_FALSE(compare(samples(1, 4'000, 2'000)).faster.has_value());
}

// Eager's time is known from calls that ran before the compile in the background had ended.
TEST(Profit, CallsWhileACompileIsPendingTellEagersTime) {
  for (const double original : {100'000.0, 60'000.0}) {
    Calls calls;
    Gain gain;
    gain.for_now = gain.passing = gain.pending = true;
    EXPECT_EQ(calls.originals(3, gain, original, original), 0);
    EXPECT_EQ(calls.originals(5000, one_segment(), 40'000, original), original > 80'000 ? 0 : 1);
  }
}

TEST(Profit, FastCallsAreMeasuredAgainAfterACompileOnly) {
  Calls calls;
  EXPECT_EQ(calls.originals(5000, several_segments(), 50, 100), 6);
  calls.call(a_compile(), 50, 100);
  // After 15 more calls, because the second measurement takes twice as many; then three measurements.
  EXPECT_EQ(calls.originals(5000, several_segments(), 200, 100), 5000 - 15 - 3 * 6);
}

TEST(Profit, AMeasurementWaitsForCompilesToEnd) {
  Calls calls;
  EXPECT_EQ(calls.originals(6, several_segments(), 200, 100), 0);
  calls.call(a_compile(), 1e5, 100);
  calls.call(a_compile(), 1e5, 100);
  EXPECT_EQ(calls.originals(4, several_segments(), 50, 100), 0);
  EXPECT_EQ(calls.originals(3, several_segments(), 50, 100), 2);
  EXPECT_EQ(calls.call(a_compile(), 1e5, 100), Run::Compiled);  // gives the measurement up
  EXPECT_EQ(calls.originals(4, several_segments(), 50, 100), 0);
  EXPECT_EQ(calls.originals(12, several_segments(), 50, 100), 6);
}

TEST(Profit, ACompileInEachCallIsMeasured) {
  Calls calls;
  const int originals = calls.originals(100, a_compile(), 1e5, 100);
  EXPECT_EQ(originals, 100 - 32 - 6);
}

TEST(Profit, CallsThatAreEagerForNowDoNotCount) {
  Calls calls;
  Gain gain = several_segments();
  gain.for_now = gain.passing = true;
  EXPECT_EQ(calls.originals(1000, gain, 200, 100), 0);
}

TEST(Profit, AGpuIsNeverMeasured) {
  Calls calls;
  Gain gain = several_segments();
  gain.on_gpu = true;
  calls.call(gain, 200, 100);
  EXPECT_EQ(calls.originals(1000, several_segments(), 200, 100), 0);
  calls.profit.forget();
  EXPECT_EQ(calls.originals(1000, several_segments(), 200, 100), 0);
}

TEST(Profit, ForgetBeginsAnew) {
  Calls calls;
  calls.originals(50, several_segments(), 200, 100);
  calls.profit.forget();
  EXPECT_EQ(calls.originals(8, several_segments(), 200, 100), 0);
  EXPECT_EQ(calls.originals(12, several_segments(), 200, 100), 6);
}

TEST(Profit, ACallOfManyPartsDoesNotWaitForAll) {
  Calls calls;
  calls.originals(8, several_segments(), 200, 100);
  int calls_for_parts = 0;
  while (!calls.profit.goes_before_parts() && calls_for_parts < 100) {
    if (calls.profit.next() == Run::Original)
      calls.profit.learn_original(100);
    else
      calls.profit.drop(Run::Compiled, true);
    ++calls_for_parts;
  }
  EXPECT_EQ(calls_for_parts, 16);
  EXPECT_EQ(calls.originals(12, several_segments(), 200, 100), 6);
  EXPECT_EQ(calls.originals(999, several_segments(), 200, 100), 999);
  calls.call(several_segments(), 200, 100);
  EXPECT_FALSE(calls.profit.goes_before_parts());  // another measurement
}

TEST(Profit, CallsInATimedCallAreNotTimed) {
  Calls calls;
  calls.originals(8, several_segments(), 200, 100);
  EXPECT_EQ(calls.profit.next(), Run::Compiled);
  EXPECT_EQ(calls.profit.next(), Run::NotTimed);
  calls.profit.learn(Run::NotTimed, several_segments(), 0);
  EXPECT_EQ(calls.profit.next(), Run::NotTimed);  // the first one still runs
  calls.profit.drop(Run::Compiled);               // it raised
  EXPECT_EQ(calls.profit.next(), Run::Compiled);
}

}  // namespace
}  // namespace vesta::capture
