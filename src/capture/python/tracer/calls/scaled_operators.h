// Operators that scale one of their tensors by a number, where the number changes from call to call.
#pragma once

#include <optional>

#include "capture/python/functions/functions.h"
#include "capture/python/tracer/calls/call.h"

namespace vesta::capture {

class Trace;

// What the operator of the call gives, computed with the number as a tensor of the graph: a new reference, nullptr with
// an error set or after the trace has ended. nullopt: the call is none of these, or its number is a plain one.
// The results are eager's by the number rule: torch.add(a, b, alpha=s) rounds once, a + b * s rounds twice unless it is
// fused.
std::optional<PyObject*> call_with_number_tensors(Trace& t, const Callable& known, const Call& c);

}  // namespace vesta::capture
