// A trace that was given up because Options::deadline_ms was over, and the deadline that would be enough for it. The
// call then runs eager, and the operators of that run show how much of the trace was missing.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace vesta::capture {

// Until when a trace may run, in a call that waits until `end` from now on. A fifth of the time is left for the end of
// the trace: its fake tensors, autograd's nodes and the program's objects are destroyed in the call, too.
std::chrono::steady_clock::time_point end_of_trace(std::chrono::steady_clock::time_point end);

struct LateTrace {
  int64_t deadline_ms = 0;
  double ms = 0;          // until it was given up
  int64_t operators = 0;  // recorded by then; 0: unknown

  // An upper estimate in milliseconds, because an eager operator may call others that no trace records. 0: unknown.
  // `eager_operators`: OperatorCount::with_derivatives() of the eager run.
  double enough_ms(int64_t eager_operators) const;
};

// For the message: "5 ms; 105 ms would be enough". `enough_ms` 0: unknown.
std::string deadline_text(int64_t deadline_ms, double enough_ms);

}  // namespace vesta::capture
