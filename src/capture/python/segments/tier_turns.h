// Chooses how calls run while the machine code of a variant is being made: in CPython (tier 0), or as calls into ATen
// without Python code between them (tier 1). Tier 1 mostly saves time, but not always: a graph computes in new memory
// what a program computes in place. So a few calls of each take turns, and the faster tier runs the others.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <memory>
#include <utility>

#include "base/stopwatch.h"
#include "capture/python/wrapper/step_aside.h"

namespace vesta::capture {

enum class Tier : unsigned char { Python, Calls };

class TierTurns {
 public:
  Tier next() const {
    if (is_decided()) return chosen();
    if (times(Tier::Python).count >= kTimes) return Tier::Calls;
    if (times(Tier::Calls).count >= kTimes) return Tier::Python;
    // The sequence of Thue and Morse: fair to both if the calls of the program differ in turn.
    return std::popcount(times(Tier::Python).count + times(Tier::Calls).count) % 2 ? Tier::Python : Tier::Calls;
  }
  // A call of this tier took so long from the variant's segment to the end of its frame.
  void took(Tier tier, double us) {
    Times& t = times_[static_cast<size_t>(tier)];
    t.least = t.count++ == 0 ? us : std::min(t.least, us);
  }
  bool is_decided() const { return times(Tier::Python).count >= kTimes && times(Tier::Calls).count >= kTimes; }
  // The least time of a call in microseconds, which others on the machine disturb least; 0: not measured.
  double least_us(Tier tier) const { return times(tier).least; }

 private:
  static constexpr size_t kTimes = 3;
  struct Times {
    size_t count = 0;
    double least = 0;
  };
  const Times& times(Tier tier) const { return times_[static_cast<size_t>(tier)]; }
  Tier chosen() const { return least_us(Tier::Calls) < least_us(Tier::Python) ? Tier::Calls : Tier::Python; }
  std::array<Times, 2> times_;
};

// A call in its turn. The end of the object is that of the call. A call that raised or compiled does not count.
class TimedTurn {
 public:
  TimedTurn(std::shared_ptr<TierTurns> turns, Tier tier, const Stopwatch& watch, const Gain& gain)
      : turns_(std::move(turns)), tier_(tier), watch_(watch), gain_(gain) {}
  ~TimedTurn();
  TimedTurn(const TimedTurn&) = delete;

 private:
  const std::shared_ptr<TierTurns> turns_;
  const Tier tier_;
  const Stopwatch watch_;
  const Gain& gain_;
};

}  // namespace vesta::capture
