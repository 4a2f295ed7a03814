// How long the outermost compiled call of a thread has waited for compiles. Options::deadline_ms bounds this time; the
// time in which the program itself runs does not count.
#pragma once

#include <chrono>
#include <cstdint>

namespace vesta::capture {

// Made for each call that may compile. Calls inside of the first one on the thread's stack add to its time, as the
// halves of a graph with gradients do.
class CompileTime {
 public:
  using Clock = std::chrono::steady_clock;

  CompileTime();
  ~CompileTime();
  CompileTime(const CompileTime&) = delete;

  // Until when a compile that begins now may take, if one call may wait for so many milliseconds; negative: for ever.
  Clock::time_point end(int64_t deadline_ms) const;
  // A compile began then and has ended. Returns the milliseconds that it took.
  double add_since(Clock::time_point begin);

 private:
  Clock::duration spent_{};
};

}  // namespace vesta::capture
