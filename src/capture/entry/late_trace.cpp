#include "capture/entry/late_trace.h"

#include <fmt/format.h>

#include <algorithm>

namespace vesta::capture {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kForTheTrace = 0.8;  // of the time that a call may wait

}  // namespace

Clock::time_point end_of_trace(Clock::time_point end) {
  if (end == Clock::time_point::max()) return end;
  const Clock::time_point now = Clock::now();
  return now + std::chrono::duration_cast<Clock::duration>((end - now) * kForTheTrace);
}

double LateTrace::enough_ms(int64_t eager_operators) const {
  if (operators == 0) return 0;
  const auto allowed = static_cast<double>(deadline_ms);
  const double before = std::max(0.0, allowed - ms);  // other compiles of the same call took this time
  const double trace = ms / static_cast<double>(operators) * static_cast<double>(eager_operators);
  const double enough = before + trace / kForTheTrace;
  return enough > allowed ? enough : 0;
}

std::string deadline_text(int64_t deadline_ms, double enough_ms) {
  if (enough_ms == 0) return fmt::format("{} ms", deadline_ms);
  return fmt::format("{} ms; {:.0f} ms would be enough", deadline_ms, enough_ms);
}

}  // namespace vesta::capture
