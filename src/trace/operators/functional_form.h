// A functional counterpart for a custom operator that writes to its arguments and has no such counterpart.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

namespace vesta::trace {

// Registers an operator that copies the arguments which `op` writes to, calls `op` on the copies, and returns op's
// fresh results followed by the copies. Call it once for each operator. nullopt: the types of its results cannot be
// known without running it, or it returns an argument that it does not write.
std::optional<c10::OperatorHandle> functional_form(const c10::OperatorHandle& op);

}  // namespace vesta::trace
