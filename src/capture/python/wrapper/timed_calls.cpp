#include "capture/python/wrapper/timed_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "capture/python/wrapper/measure_when.h"

namespace vesta::capture {
namespace {

constexpr size_t kLeastSamples = 5, kMostSamples = 15;
// A call of this many microseconds is long enough to be measured by fewer samples.
constexpr double kLongCall = 200'000;
constexpr size_t kSamplesOfLongCalls = 3;
// Where a compiled call takes so many microseconds, one call of the original tells that it gains, else two calls.
constexpr double kTellingAtOnce = 20'000;
// With few samples, only a ratio this far from one decides.
constexpr double kMargin = 0.1;
// The first call of the original finds caches and memory as compiled calls have left them: a fresh page costs a
// microsecond or more. From kTellingCall on, where tensors are large, it counts only if it takes so many microseconds.
constexpr double kColdCounts = 30'000;
// While kMostWaiting calls wait for their backward passes, no further call is timed. If kMostTaken timed calls have not
// decided the measurement, because their backward passes raised errors, it ends and calls run compiled code.
constexpr size_t kMostWaiting = 2 * kMostSamples;
constexpr unsigned kMostTaken = 4 * kMostWaiting;

double median(std::vector<double> x) {
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
  std::nth_element(x.begin(), middle, x.end());
  return *middle;
}

double mean(const std::vector<double>& x) { return std::accumulate(x.begin(), x.end(), 0.0) / double(x.size()); }

std::string duration(double us) {
  return us < 1e3   ? fmt::format("{:.3g} us", us)
         : us < 1e6 ? fmt::format("{:.3g} ms", us / 1e3)
                    : fmt::format("{:.3g} s", us / 1e6);
}

}  // namespace

Comparison compare(const Samples& s) {
  const size_t n = std::min(s.compiled.size(), s.original.size());
  if (n == 0) return {};
  Comparison out{s.recompiles ? mean(s.compiled) : median(s.compiled), median(s.original), s.has_backward,
                 std::nullopt};
  const size_t telling = out.compiled_us >= kTellingAtOnce ? 1 : 2;
  if (!s.recompiles && out.compiled_us >= kTellingCall && s.original.size() >= telling &&
      *std::ranges::min_element(s.original) >= kClearly * out.compiled_us) {
    out.faster = true;
    return out;
  }
  if (n < kSamplesOfLongCalls) return out;
  if (n < kLeastSamples && out.compiled_us + out.original_us < 2 * kLongCall) return out;
  const double margin = n < kMostSamples ? kMargin : 0;
  if (out.compiled_us <= (1 - margin) * out.original_us)
    out.faster = true;
  else if (out.compiled_us > (1 + margin) * out.original_us)
    out.faster = false;
  return out;
}

std::string text_of(const Comparison& times) {
  return fmt::format("{} compiled and {} uncompiled{}", duration(times.compiled_us), duration(times.original_us),
                     times.has_backward ? ", with the backward pass" : "");
}

Run TimedCalls::next() const {
  if (waiting_.size() >= kMostWaiting) return Run::NotTimed;
  // The sequence of Thue and Morse: fair to both if the calls of the program differ in turn, long and short for
  // example.
  return std::popcount(taken_) % 2 ? Run::Original : Run::Compiled;
}

void TimedCalls::add(Run run, double us, std::shared_ptr<const BackwardTime> backward) {
  ++taken_;
  Waiting call{run, us, std::move(backward)};
  if (!take(call)) waiting_.push_back(std::move(call));
}

// Whether the call waits no longer.
bool TimedCalls::take(const Waiting& call) {
  double us = call.us;
  if (call.backward) {
    const bool is_over = call.backward->has_finished(), is_dropped = call.backward.use_count() == 1;
    if (!is_over && !is_dropped) return false;
    if (is_over || call.backward->has_begun()) {
      const std::optional<double> backward_us = call.backward->us();
      if (!backward_us) return true;  // the pass raised, or ran another part of the graph
      us += *backward_us;
      samples_.has_backward = true;
    }
  }
  if (call.run == Run::Compiled)
    samples_.compiled.push_back(us);
  else if (std::exchange(ran_original_, true) || us < kTellingCall || us >= kColdCounts)
    samples_.original.push_back(us);
  return true;
}

Comparison TimedCalls::compare_known() {
  std::erase_if(waiting_, [this](const Waiting& w) { return take(w); });
  Comparison out = compare(samples_);
  if (taken_ >= kMostTaken && !out.faster) out.faster = true;
  return out;
}

}  // namespace vesta::capture
