// Wall time: how much has passed, and when so much will have passed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace vesta {

// The time in so many seconds, at most in three years, because more could overflow; negative: never.
inline std::chrono::steady_clock::time_point end_after(double seconds) {
  using Clock = std::chrono::steady_clock;
  if (seconds < 0) return Clock::time_point::max();
  constexpr double kMost = 1e8;
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(seconds, kMost)));
}

// Until when to wait for what may take so many milliseconds; negative: for ever. A little earlier than that: where all
// cores are busy, a thread that waits is woken up to a few milliseconds late.
inline std::chrono::steady_clock::time_point end_of_wait(int64_t milliseconds) {
  constexpr double kLate = 2;
  const auto ms = static_cast<double>(milliseconds);
  return end_after((ms - std::min(kLate, ms / 10)) / 1e3);
}

// Measures from the moment it is made.
class Stopwatch {
 public:
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace vesta
