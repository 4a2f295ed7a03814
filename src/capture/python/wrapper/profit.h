// Measures whether compiled calls are faster than the original. Guards, graph breaks and recompiles can cost more than
// graphs save, and a graph can be slower than ATen. If so, calls run the original until the next measurement is due.
// What a measurement costs is bounded: it begins after a number of calls, and one uncompiled call ends it if that takes
// much longer. Times of calls that use a GPU tell nothing, because the GPU runs after them, so they are never measured.
// The GIL guards every member.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/totals.h"
#include "capture/python/wrapper/measure_when.h"

namespace vesta::capture {

// Times in microseconds of calls that took turns.
struct Samples {
  std::vector<double> compiled, original;
  bool trains = false;      // gradients are recorded: the backward half, which may gain, is not part of the times
  double backward_us = 0;   // that the backward half is expected to take longer than eager's, where both take little
  bool recompiles = false;  // a call compiled: its time counts in full
  int dropped = 0;          // calls without a usable time, because a part of them was measured
};

struct Comparison {
  double compiled_us = 0, original_us = 0;  // of a call
  double backward_us = 0;                   // Samples::backward_us
  std::optional<bool> faster;               // whether compiled calls are fast enough; nullopt: more samples are needed
};
Comparison compare(const Samples& samples);
double expected_backward_us(const Gain& gain);  // Samples::backward_us
std::string text_of(const Comparison& times);   // "67.4 us compiled and 44.1 us uncompiled"

// Calls that are measured together.
class Profit {
 public:
  enum class Run : uint8_t { NotTimed, Compiled, Original };

  explicit Profit(int needed = MeasureWhen::kNeeded) : needed_(needed) {}

  // Nothing is measured any more, and calls run compiled code.
  void switch_off() { state_ = State::Off; }
  void forget();
  // Says how the next call runs. The caller reports a timed call by learn(), learn_original() or drop().
  Run next();
  // After a compiled call. `us`: 0 if it was not timed.
  void learn(Run run, const Gain& gain, double us);
  // After a timed call of the original. Returns both times if calls run the original from now on.
  std::optional<Comparison> learn_original(double us);
  // The time of a timed call is not used: the call raised, or (`for_part`) a part of it was measured.
  void drop(Run run, bool for_part = false);
  // Whether timed calls measure no parts from now on, because many calls were dropped for parts. Otherwise the
  // measurement of a call with many parts would have to wait until all parts have been measured.
  bool goes_before_parts() const;
  // `calls`: the counter of calls that run the original for that reason, or nullptr.
  void count_in(totals::Tally* calls) { counter_ = calls; }
  // Whether a call runs the original, because compiled calls are slower. If so, it is counted.
  bool keeps_original() {
    if (state_ != State::KeepsOriginal) return false;
    return count_original();
  }
  MeasureWhen& when() { return when_; }
  bool is_off() const { return state_ == State::Off; }
  // next() and keeps_original() may say something else than that calls run compiled code.
  bool is_active() const { return state_ == State::Measures || state_ == State::KeepsOriginal; }
  double original_us() const { return original_us_; }  // of a call, while calls run the original

 private:
  enum class State : uint8_t { Off, Watches, Measures, KeepsOriginal };
  bool count_original();
  void begin_measuring(bool recompiles);

  int needed_;
  State state_ = State::Watches;
  bool is_timing_ = false;  // a timed call runs: further ones, nested or of other threads, are not timed
  int64_t next_keep_ = 0, until_measured_ = 0;
  double original_us_ = 0;
  MeasureWhen when_{needed_};
  totals::Tally* counter_ = nullptr;
  Samples samples_;
};

}  // namespace vesta::capture
