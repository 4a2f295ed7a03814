// Decides after which call a measurement begins (profit.h). Calls with several segments, with a part that ran eager or
// with a compile are suspicious: they are measured early. Calls of one graph are seldom slow, and a long call that runs
// uncompiled costs time: they are measured later, and not at all where eager is known to take much longer.
#pragma once

#include <algorithm>
#include <cstdint>

#include "capture/python/wrapper/step_aside.h"

namespace vesta::capture {

// A compiled call of so many microseconds gains for certain if calls of the original take kClearly times as long.
constexpr double kTellingCall = 1'000, kClearly = 1.5;

class MeasureWhen {
 public:
  enum class Answer : uint8_t { NotNow, Now, NowWithCompiles };  // the last: it goes on compiling
  static constexpr int kNeeded = 8;
  // `needed`: so many suspicious calls come before the first measurement.
  explicit MeasureWhen(int needed = kNeeded) : needed_(needed) {}
  // After a call that ran compiled code. `us`: its time, 0 if it is not known.
  Answer after(const Gain& gain, double us);
  // A call ran eager, because its compile was still running.
  void ran_before_compile(double us);
  // A call that is measured with other calls compiled nothing, or compiled something that this one uses.
  void count_calm() {
    suspicious_ = std::max(0, suspicious_ - 1);
    ++calm_;
  }
  void count_compile() {
    is_over_ = false;
    calm_ = 0;
    compiled_us_ = 0;
  }
  // A measurement was given up because a call compiled.
  void given_up() {
    ++restarts_;
    calm_ = 0;
  }
  // A measurement has ended. If compiled calls are fast enough, another one comes only after a compile, and later.
  void ended(bool fast_enough);

 private:
  bool is_due(bool suspicious) const;

  bool is_over_ = false;  // compiled calls were found fast enough, and nothing was compiled since
  int needed_;            // suspicious calls
  int suspicious_ = 0;    // suspicious calls, less the others
  int calm_ = 0;          // calls since the last one that compiled
  int restarts_ = 0;      // measurements given up
  // The least time of a call of one graph, and of one that ran before that was compiled; 0: unknown.
  double compiled_us_ = 0, before_us_ = 0;
};

}  // namespace vesta::capture
