// A functional counterpart for a user's operator that writes to its arguments and has none.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

namespace vesta::trace {

// Registers an operator that copies the arguments which `op` writes to, calls `op` on the copies, and returns op's
// fresh results and then the copies. To be called once for each operator. Nothing where the types of its results cannot
// be known without running it, or where it returns an argument that it does not write.
std::optional<c10::OperatorHandle> functional_form(const c10::OperatorHandle& op);

}  // namespace vesta::trace
