#include "capture/python/segments/first_call.h"

#include <fmt/format.h>

#include "pipeline/strategy.h"

namespace vesta::capture {

void FirstCall::took(double us, int64_t operators, int64_t expected_calls) {
  us_ = us;
  operators_ = operators;
  predict(expected_calls);
}

const std::string& FirstCall::why_not(int64_t calls) {
  if (!why_not_.empty() && calls > expected_calls_) predict(2 * calls);
  return why_not_;
}

void FirstCall::predict(int64_t expected_calls) {
  expected_calls_ = expected_calls;
  why_not_.clear();
  if (pipeline::may_gain(us_, operators_, expected_calls)) return;
  why_not_ = fmt::format(
      "strategy=\"auto\" chose eager: {} calls like the first one, of {:.3g} us, would not save the time of a compile",
      expected_calls, us_);
}

}  // namespace vesta::capture
