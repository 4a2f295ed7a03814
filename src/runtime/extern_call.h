// Extern calls: an ATen operator is found once and called many times. Direct calls of some operators are in ops/rows.h.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

#include "artifact/artifact.h"

namespace vesta::runtime {

// Whether the operator is not one of ATen's. Such an operator is opaque.
bool is_custom(const std::string& op);

// Whether the call may draw from a default generator. False if its operator never does, or if an argument (a dropout of
// 0, a training mode that is off) shows that it does not.
bool may_draw(const c10::OperatorHandle& op, const artifact::Extern& call);

}  // namespace vesta::runtime
