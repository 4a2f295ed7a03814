// Measures whether compiled calls are faster than the original. Guards, graph breaks and recompiles can cost more than
// graphs save, and a graph can be slower than ATen. If so, calls run the original until the next measurement is due.
// What a measurement costs is bounded: it begins after a number of calls, and one uncompiled call ends it if that takes
// much longer. The backward pass of a call is part of its time. It comes later, so a measurement ends when a call
// begins. Times of calls that use a GPU tell nothing, because the GPU runs after them, so they are never measured. The
// GIL guards every member.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/totals.h"
#include "capture/python/wrapper/measure_when.h"
#include "capture/python/wrapper/timed_calls.h"

namespace vesta::capture {

// Calls that run the original until compiled ones are measured again: 1,000, then twice as many after each measurement
// with the same outcome, up to 64,000.
class OriginalCalls {
 public:
  // `us`: the time of a call with its backward pass.
  void begin(double us);
  // Compiled calls were faster.
  void forget() { *this = {}; }
  // Counts a call. False: compiled calls are measured again, and this one is the first.
  bool count();
  // `calls`: the counter of calls that run the original for that reason, or nullptr.
  void count_in(totals::Tally* calls) { counter_ = calls; }
  double us() const { return us_; }

 private:
  int64_t number_ = 0, left_ = 0;
  double us_ = 0;
  totals::Tally* counter_ = nullptr;
};

// Calls that are measured together.
class Profit {
 public:
  explicit Profit(int needed = MeasureWhen::kNeeded) : needed_(needed) {}

  // Nothing is measured any more, and calls run compiled code.
  void switch_off() { state_ = State::Off; }
  void forget();
  // Before a call, and before next(). Returns both times if backward passes have shown that compiled calls are slower:
  // calls run the original from now on.
  std::optional<Comparison> conclude();
  // Says how the next call runs. The caller reports a timed call by learn(), learn_original() or drop().
  Run next();
  // After a compiled call. `us`: 0 if it was not timed. `backward`: nullptr if it has none.
  void learn(Run run, const Gain& gain, double us, std::shared_ptr<const BackwardTime> backward = nullptr);
  // After a timed call of the original. Returns both times if calls run the original from now on.
  std::optional<Comparison> learn_original(double us, std::shared_ptr<const BackwardTime> backward = nullptr);
  // The time of a timed call is not used: the call raised, or (`for_part`) a part of it was measured.
  void drop(Run run, bool for_part = false);
  // Whether timed calls measure no parts from now on, because many calls were dropped for parts. Otherwise the
  // measurement of a call with many parts would have to wait until all parts have been measured.
  bool goes_before_parts() const;
  void count_in(totals::Tally* calls) { originals_.count_in(calls); }
  // Whether a call runs the original, because compiled calls are slower. If so, it is counted.
  bool keeps_original() {
    if (state_ != State::KeepsOriginal) return false;
    return count_original();
  }
  MeasureWhen& when() { return when_; }
  bool is_off() const { return state_ == State::Off; }
  // next() and keeps_original() may say something else than that calls run compiled code.
  bool is_active() const { return state_ == State::Measures || state_ == State::KeepsOriginal; }
  // Of a call with its backward pass, while calls run the original.
  double original_us() const { return originals_.us(); }

 private:
  enum class State : uint8_t { Off, Watches, Measures, KeepsOriginal };
  bool count_original();
  void begin_measuring(bool recompiles);
  std::optional<Comparison> decide();

  int needed_;
  State state_ = State::Watches;
  bool is_timing_ = false;  // a timed call runs: further ones, nested or of other threads, are not timed
  MeasureWhen when_{needed_};
  OriginalCalls originals_;
  TimedCalls timed_;
  int dropped_ = 0;  // timed calls without a usable time, because a part of them was measured
};

}  // namespace vesta::capture
