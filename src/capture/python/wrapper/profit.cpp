#include "capture/python/wrapper/profit.h"

#include <algorithm>
#include <utility>

namespace vesta::capture {
namespace {

constexpr int kMostDropped = 16;  // calls dropped for parts, before timed calls measure no parts
constexpr int64_t kFewestOriginals = 1'000, kMostOriginals = 64'000;

}  // namespace

void OriginalCalls::begin(double us) {
  number_ = number_ ? std::min(2 * number_, kMostOriginals) : kFewestOriginals;
  left_ = number_;
  us_ = us;
  counter_ = nullptr;
}

bool OriginalCalls::count() {
  if (--left_ <= 0) return false;
  if (counter_) ++*counter_;
  return true;
}

void Profit::forget() {
  const bool off = state_ == State::Off;
  *this = Profit(needed_);
  if (off) switch_off();
}

Run Profit::next() {
  if (state_ != State::Measures || is_timing_) return Run::NotTimed;
  const Run run = timed_.next();
  is_timing_ = run != Run::NotTimed;
  return run;
}

std::optional<Comparison> Profit::conclude() {
  return state_ == State::Measures && timed_.is_waiting() ? decide() : std::nullopt;
}

void Profit::begin_measuring(bool recompiles) {
  state_ = State::Measures;
  timed_ = TimedCalls(recompiles);
  dropped_ = 0;
}

void Profit::learn(Run run, const Gain& gain, double us, std::shared_ptr<const BackwardTime> backward) {
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
  if (gain.compiled && !timed_.recompiles()) {
    when_.given_up();
    state_ = State::Watches;
    return;
  }
  timed_.add(Run::Compiled, us, std::move(backward));
}

std::optional<Comparison> Profit::learn_original(double us, std::shared_ptr<const BackwardTime> backward) {
  is_timing_ = false;
  if (state_ != State::Measures) return std::nullopt;
  timed_.add(Run::Original, us, std::move(backward));
  return decide();
}

std::optional<Comparison> Profit::decide() {
  const Comparison found = timed_.compare_known();
  if (!found.faster) return std::nullopt;
  timed_ = {};
  when_.ended(*found.faster);
  if (*found.faster) {
    state_ = State::Watches;
    originals_.forget();
    return std::nullopt;
  }
  state_ = State::KeepsOriginal;
  originals_.begin(found.original_us);
  return found;
}

void Profit::drop(Run run, bool for_part) {
  if (run == Run::NotTimed) return;
  is_timing_ = false;
  dropped_ += for_part;
}

bool Profit::goes_before_parts() const { return dropped_ >= kMostDropped; }

bool Profit::count_original() {
  if (originals_.count()) return true;
  begin_measuring(false);
  return false;
}

}  // namespace vesta::capture
