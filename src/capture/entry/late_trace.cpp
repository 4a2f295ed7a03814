#include "capture/entry/late_trace.h"

#include <fmt/format.h>

#include <algorithm>

namespace vesta::capture {

double LateTrace::enough_ms(int64_t eager_operators) const {
  if (operators == 0) return 0;
  const auto allowed = static_cast<double>(deadline_ms);
  const double before = std::max(0.0, allowed - ms);  // other compiles of the same call took this time
  const double enough = before + ms / static_cast<double>(operators) * static_cast<double>(eager_operators);
  return enough > allowed ? enough : 0;
}

std::string deadline_text(int64_t deadline_ms, double enough_ms) {
  if (enough_ms == 0) return fmt::format("{} ms", deadline_ms);
  return fmt::format("{} ms; {:.0f} ms would be enough", deadline_ms, enough_ms);
}

}  // namespace vesta::capture
