// How long the outermost compiled call of a thread has waited for compiles. Options::deadline_ms bounds this time; the
// time in which the program itself runs does not count.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/stopwatch.h"
#include "base/totals.h"

namespace vesta::capture {

// Made for each compiled call. Calls inside of the first one on the thread's stack add to its time.
class CompileTime {
 public:
  using Clock = std::chrono::steady_clock;

  CompileTime() {
    if (!outermost) outermost = this;
  }
  ~CompileTime() {
    if (outermost == this) outermost = nullptr;
  }
  CompileTime(const CompileTime&) = delete;

  // Until when a compile that begins now may take, if one call may wait for so many milliseconds; negative: for ever.
  Clock::time_point end(int64_t deadline_ms) const {
    const Clock::time_point end = end_after(static_cast<double>(deadline_ms) / 1e3);
    return deadline_ms < 0 ? end : end - outermost->spent_;
  }
  // A compile began then and has ended. Returns the milliseconds that it took.
  double add_since(Clock::time_point begin) {
    const Clock::duration spent = Clock::now() - begin;
    outermost->spent_ += spent;
    totals::of(totals::Count::WaitedNanoseconds).add(std::chrono::nanoseconds(spent).count());
    return std::chrono::duration<double, std::milli>(spent).count();
  }

 private:
  static inline thread_local CompileTime* outermost = nullptr;
  Clock::duration spent_{};
};

}  // namespace vesta::capture
