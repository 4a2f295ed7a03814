// Extern calls: an ATen operator found once, called many times; the way around the boxed call where it pays.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

#include "artifact/artifact.h"

namespace vesta::runtime {

// Writes the operator's single result into `out`, which has its exact sizes and dtype. `stack` holds all arguments.
// Returns false where these arguments need the general call.
using IntoFn = bool (*)(const std::vector<c10::IValue>& stack, at::Tensor& out);
IntoFn find_into(const std::string& op);

// Whether the call may draw from a default generator: its operator may, and no argument (a dropout of 0, a training
// mode that is off) tells that it does not.
bool may_draw(const c10::OperatorHandle& op, const artifact::Extern& call);

// The operator's handle. Throws Unsupported if this process has no such operator.
c10::OperatorHandle find_operator(const std::string& op);

}  // namespace vesta::runtime
