// When a function is measured, and what its calls do then. No clock is read: the tests say how long calls took.
#include "capture/python/wrapper/profit.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace vesta::capture {
namespace {

using How = Run;  // in a test, Run is a function of it

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

// Timed calls with backward passes.
struct Steps {
  // One call; the first node of its backward pass runs at once, and the last one after so many microseconds.
  How step(double compiled_us, double original_us, double backward_us, double original_backward_us) {
    const How run = call(compiled_us, original_us);
    if (run != How::NotTimed) pass(*last, run == How::Original ? original_backward_us : backward_us);
    return run;
  }
  How call(double compiled_us, double original_us) {
    if (profit.keeps_original()) return How::NotTimed;
    if (auto found = profit.conclude()) {
      reason = text_of(*found);
      return How::NotTimed;
    }
    const How run = profit.next();
    last = run == How::NotTimed ? nullptr : std::make_shared<BackwardTime>();
    if (run == How::Original) {
      EXPECT_FALSE(profit.learn_original(original_us, last));
    } else {
      Gain gain = several_segments();
      gain.trains = true;
      profit.learn(run, gain, compiled_us, last);
    }
    return run;
  }
  void pass(BackwardTime& time, double us) {
    EXPECT_TRUE(time.begin(++passes, 1'000));
    time.reach(passes, 1'000 + us / 2);
    time.reach(passes, 1'000 + us);
    time.finish(passes);
  }
  Profit profit;
  std::shared_ptr<BackwardTime> last;
  int passes = 0;
  std::string reason;
};

TEST(Profit, TheBackwardPassCounts) {
  for (const bool slower : {false, true}) {
    Steps steps;
    int originals = 0;
    for (int i = 0; i < 60; ++i) originals += steps.step(100, 150, slower ? 300 : 100, 200) == How::Original;
    EXPECT_EQ(originals, 5);
    EXPECT_EQ(steps.profit.keeps_original(), slower);
    EXPECT_EQ(steps.reason, slower ? "400 us compiled and 350 us uncompiled, with the backward pass" : "");
    EXPECT_EQ(steps.profit.original_us(), slower ? 350 : 0);
  }
}

TEST(Profit, ACallWhoseResultIsDroppedHasNoBackwardPass) {
  Steps steps;
  for (int i = 0; i < 60; ++i) {
    steps.call(200, 100);
    steps.last.reset();
  }
  EXPECT_TRUE(steps.profit.keeps_original());
  EXPECT_EQ(steps.reason, "200 us compiled and 100 us uncompiled");
}

// It finds memory and caches as the compiled calls have left them.
TEST(Profit, TheFirstShortCallOfTheOriginalDoesNotCount) {
  for (const double cold : {20'000.0, 40'000.0}) {
    TimedCalls timed;
    timed.add(How::Compiled, 4'000, nullptr);
    timed.add(How::Original, cold, nullptr);
    timed.add(How::Original, 7'000, nullptr);
    EXPECT_EQ(timed.compare_known().faster.has_value(), cold > 30'000);
  }
}

TEST(Profit, BackwardPassesMayComeLate) {
  Steps steps;
  std::vector<std::pair<How, std::shared_ptr<BackwardTime>>> timed;
  for (int i = 0; i < 200; ++i)
    if (const auto run = steps.call(100, 100); run != How::NotTimed) timed.emplace_back(run, steps.last);
  EXPECT_EQ(timed.size(), 30);  // further calls wait for these
  for (auto& [run, time] : timed) steps.pass(*time, run == How::Original ? 100 : 200);
  steps.call(100, 100);
  EXPECT_EQ(steps.reason, "300 us compiled and 200 us uncompiled, with the backward pass");
}

TEST(Profit, PassesThatRaiseTellNothing) {
  Steps steps;
  int originals = 0;
  for (int i = 0; i < 1'000; ++i) {
    originals += steps.call(200, 100) == How::Original;
    if (steps.last) steps.last->begin(i, 0);
    steps.last.reset();
  }
  EXPECT_EQ(originals, 60);  // the measurement is given up
  EXPECT_FALSE(steps.profit.keeps_original());
}

TEST(Profit, OnlyTheFirstBackwardPassCounts) {
  BackwardTime time;
  EXPECT_FALSE(time.has_begun());
  time.reach(7, 5);  // no pass has begun
  EXPECT_TRUE(time.begin(7, 10));
  EXPECT_FALSE(time.begin(7, 11));  // at another result
  time.reach(7, 30);
  EXPECT_FALSE(time.us());  // it still runs
  time.reach(8, 90);
  time.finish(8);
  EXPECT_FALSE(time.has_finished());
  time.finish(7);
  EXPECT_EQ(time.us(), 20);
  EXPECT_FALSE(time.begin(9, 100));
  time.reach(9, 200);
  time.finish(9);
  EXPECT_EQ(time.us(), 20);
  BackwardTime other;
  other.begin(1, 0);
  other.finish(1);
  EXPECT_FALSE(other.us());  // it has run another part of the graph
}

// What a call took before its compile had ended lacks the backward pass.
TEST(Profit, WithGradientsEveryFunctionIsMeasured) {
  Calls calls;
  Gain pending;
  pending.for_now = pending.passing = pending.pending = true;
  calls.originals(3, pending, 100'000, 100'000);
  Gain trains = one_segment();
  trains.trains = true;
  EXPECT_EQ(calls.originals(200, trains, 40'000, 100'000), 1);
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
    originals += calls.call(several_segments(), factor * 50, factor * 100) == How::Original;
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
  EXPECT_EQ(calls.originals(5000, one_segment(), 2'000, 4'000), 3);  // the first one does not count
  Calls longer;
  EXPECT_EQ(longer.originals(32, one_segment(), 50'000, 100'000), 0);
  EXPECT_EQ(longer.originals(5000, one_segment(), 50'000, 100'000), 1);
  EXPECT_EQ(compare(samples(1, 20'000, 40'000)).faster, true);
  EXPECT_EQ(compare(samples(2, 2'000, 4'000)).faster, true);
  EXPECT_FALSE(compare(samples(1, 2'000, 4'000)).faster.has_value());
  Samples other_work = samples(2, 2'000, 2'000);
  other_work.original[0] = 90'000;
  EXPECT_FALSE(compare(other_work).faster.has_value());
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
  EXPECT_EQ(calls.call(a_compile(), 1e5, 100), How::Compiled);  // gives the measurement up
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
    if (calls.profit.next() == How::Original)
      calls.profit.learn_original(100);
    else
      calls.profit.drop(How::Compiled, true);
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
  EXPECT_EQ(calls.profit.next(), How::Compiled);
  EXPECT_EQ(calls.profit.next(), How::NotTimed);
  calls.profit.learn(How::NotTimed, several_segments(), 0);
  EXPECT_EQ(calls.profit.next(), How::NotTimed);  // the first one still runs
  calls.profit.drop(How::Compiled);               // it raised
  EXPECT_EQ(calls.profit.next(), How::Compiled);
}

}  // namespace
}  // namespace vesta::capture
