#include "capture/python/wrapper/profit.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

namespace vesta::capture {
namespace {

constexpr size_t kLeastSamples = 5, kMostSamples = 15;
// A call of this many microseconds is long enough to be measured by fewer samples.
constexpr double kLongCall = 200'000;
constexpr size_t kSamplesOfLongCalls = 3;
constexpr int kMostDropped = 16;  // calls dropped for parts, before timed calls measure no parts
// Calls run the original for so many calls, then for twice as many after each measurement with the same outcome.
constexpr int64_t kFirstKeep = 1'000, kLongestKeep = 64'000;
// Compiled calls are slow beyond this multiple of the original's time.
constexpr double kSlower = 1, kSlowerWithGradients = 1.25;
// Microseconds of a backward pass of ours, and of an operator in eager's, besides what they compute: on a server CPU.
constexpr double kBackwardPass = 9, kBackwardOperator = 3;
// With few samples, only a ratio this far from the limit decides.
constexpr double kMargin = 0.1;

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
  Comparison out{s.recompiles ? mean(s.compiled) : median(s.compiled), median(s.original), s.backward_us, std::nullopt};
  if (!s.recompiles && out.compiled_us >= kTellingCall && out.original_us >= kClearly * out.compiled_us) {
    out.faster = true;
    return out;
  }
  if (n < kSamplesOfLongCalls) return out;
  if (n < kLeastSamples && out.compiled_us + out.original_us < 2 * kLongCall) return out;
  const double limit = (s.trains ? kSlowerWithGradients : kSlower) * out.original_us;
  const double margin = n < kMostSamples ? kMargin : 0;
  const double compiled_us = out.compiled_us + out.backward_us;
  if (compiled_us <= (1 - margin) * limit)
    out.faster = true;
  else if (compiled_us > (1 + margin) * limit)
    out.faster = false;
  return out;
}

double expected_backward_us(const Gain& gain) {
  const double ours = kBackwardPass * gain.backward_passes;
  return std::max(0.0, ours - kBackwardOperator * static_cast<double>(gain.backward_operators));
}

std::string text_of(const Comparison& times) {
  const std::string compiled = duration(times.compiled_us), original = duration(times.original_us);
  if (times.backward_us == 0) return fmt::format("{} compiled and {} uncompiled", compiled, original);
  return fmt::format("{} compiled, besides a backward pass that takes about {} longer, and {} uncompiled", compiled,
                     duration(times.backward_us), original);
}

void Profit::forget() {
  const bool off = state_ == State::Off;
  *this = Profit(needed_);
  if (off) switch_off();
}

Profit::Run Profit::next() {
  if (state_ != State::Measures || is_timing_) return Run::NotTimed;
  is_timing_ = true;
  // The sequence of Thue and Morse: fair to both if the calls of the program differ in turn, long and short for
  // example.
  const size_t turn = samples_.compiled.size() + samples_.original.size();
  return std::popcount(turn) % 2 ? Run::Original : Run::Compiled;
}

void Profit::begin_measuring(bool recompiles) {
  state_ = State::Measures;
  samples_ = {};
  samples_.recompiles = recompiles;
}

void Profit::learn(Run run, const Gain& gain, double us) {
  drop(run);
  if (state_ == State::Off) return;
  if (gain.for_now) {
    if (gain.pending && gain.segments == 0 && !gain.compiled) when_.ran_before_compile(us);
    return;
  }
  if (gain.on_gpu) return switch_off();
  if (state_ == State::Watches) {
    const MeasureWhen::Answer answer = when_.after(gain, us);
    if (answer != MeasureWhen::Answer::NotNow) begin_measuring(answer == MeasureWhen::Answer::NowWithCompiles);
    return;
  }
  if (run == Run::NotTimed || state_ != State::Measures) return;
  if (gain.compiled && !samples_.recompiles) {
    when_.given_up();
    state_ = State::Watches;
    return;
  }
  samples_.trains |= gain.backward_passes > 0;
  samples_.backward_us = std::max(samples_.backward_us, expected_backward_us(gain));
  samples_.compiled.push_back(us);
}

std::optional<Comparison> Profit::learn_original(double us) {
  is_timing_ = false;
  if (state_ != State::Measures) return std::nullopt;
  samples_.original.push_back(us);
  const Comparison found = compare(samples_);
  if (!found.faster) return std::nullopt;
  when_.ended(*found.faster);
  if (*found.faster) {
    state_ = State::Watches;
    next_keep_ = 0;
    return std::nullopt;
  }
  state_ = State::KeepsOriginal;
  next_keep_ = next_keep_ ? std::min(2 * next_keep_, kLongestKeep) : kFirstKeep;
  until_measured_ = next_keep_;
  original_us_ = found.original_us;
  counter_ = nullptr;
  return found;
}

void Profit::drop(Run run, bool for_part) {
  if (run == Run::NotTimed) return;
  is_timing_ = false;
  samples_.dropped += for_part;
}

bool Profit::goes_before_parts() const { return samples_.dropped >= kMostDropped; }

bool Profit::count_original() {
  if (--until_measured_ <= 0) {
    begin_measuring(false);
    return false;
  }
  if (counter_) ++*counter_;
  return true;
}

}  // namespace vesta::capture
