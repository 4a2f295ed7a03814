#include "capture/python/wrapper/measure_when.h"

namespace vesta::capture {
namespace {

// A measurement of suspicious calls begins after MeasureWhen::needed_ of them once the last kCalmCalls calls have
// compiled nothing, and at the latest after kMostFurtherCalls more. Calls of one graph are measured after kCalmFactor
// times as many calls without a compile, and after kCalmFactorSlow times as many if a call takes longer than kSlowCall.
constexpr int kCalmCalls = 4, kMostFurtherCalls = 24, kMostNeeded = 4'096;
constexpr int kMostRestarts = 3;
constexpr int kCalmFactor = 2, kCalmFactorSlow = 4;
constexpr double kSlowCall = 20'000;  // microseconds
// The compile in the background takes its share of the cores, so a call beside it must take longer to tell something.
constexpr double kClearlyBesideCompile = 2;

bool is_suspicious(const Gain& gain) { return gain.passing || gain.segments != 1; }

void keep_least(double& least, double us) {
  if (us > 0 && (least == 0 || us < least)) least = us;
}

}  // namespace

void MeasureWhen::ran_before_compile(double us) { keep_least(before_us_, us); }

void MeasureWhen::ended(bool fast_enough) {
  suspicious_ = calm_ = restarts_ = 0;
  if (!fast_enough) return;
  is_over_ = true;
  needed_ = std::min(2 * needed_, kMostNeeded);
}

bool MeasureWhen::is_due(bool suspicious) const {
  if (suspicious) return suspicious_ >= needed_ && calm_ >= kCalmCalls;
  return calm_ >= (compiled_us_ > kSlowCall ? kCalmFactorSlow : kCalmFactor) * needed_;
}

MeasureWhen::Answer MeasureWhen::after(const Gain& gain, double us) {
  const bool suspicious = is_suspicious(gain);
  if (gain.compiled) count_compile();
  if (is_over_) return Answer::NotNow;
  suspicious_ = std::max(0, suspicious_ + (suspicious ? 1 : -1));
  if (!gain.compiled) ++calm_;
  if (!suspicious) keep_least(compiled_us_, us);
  if (suspicious_ >= needed_ + (restarts_ > kMostRestarts ? 0 : kMostFurtherCalls)) return Answer::NowWithCompiles;
  if (!is_due(suspicious)) return Answer::NotNow;
  // Of a call with gradients, these times lack the backward pass.
  const bool known = !gain.trains && compiled_us_ >= kTellingCall && before_us_ >= kClearlyBesideCompile * compiled_us_;
  if (suspicious || !known) return Answer::Now;
  ended(true);
  return Answer::NotNow;
}

}  // namespace vesta::capture
