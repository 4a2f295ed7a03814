// Chooses the dispatch key of traced tensors: when the first trace starts, the first candidate key for which torch has
// no fallback.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DispatchKey.h>

namespace vesta::trace {

// Registers `kernel` as the fallback, once per process. Throws Unsupported if every candidate is taken.
c10::DispatchKey claim_trace_key(void (*kernel)(const c10::OperatorHandle&, torch::jit::Stack*));
// Undefined before the first claim.
c10::DispatchKey trace_key();

}  // namespace vesta::trace
