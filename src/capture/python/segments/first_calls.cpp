#include "capture/python/segments/first_calls.h"

#include <fmt/format.h>

#include <algorithm>

#include "pipeline/strategy.h"

namespace vesta::capture {

void FirstCalls::took(const CallSignature& call, double us, int64_t operators, int64_t expected_calls) {
  us_ = count_ > 0 && call == signature_ ? std::min(us_, us) : us;
  signature_ = call;
  ++count_;
  operators_ = operators;
  predict(expected_calls);
}

const std::string& FirstCalls::why_not(int64_t calls) {
  if (!why_not_.empty() && calls > expected_calls_) predict(2 * calls);
  return why_not_;
}

void FirstCalls::predict(int64_t expected_calls) {
  expected_calls_ = expected_calls;
  why_not_.clear();
  if (pipeline::may_gain(us_, operators_, expected_calls)) return;
  why_not_ = fmt::format(
      "strategy=\"auto\" chose eager: {} calls like the first ones, of {:.3g} us, would not save the time of a compile",
      expected_calls, us_);
}

}  // namespace vesta::capture
