// Operators of torch by their names.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

namespace vesta {

// The operator's handle; `op` is "aten::add.Tensor", for example. Throws Unsupported if this process has no such
// operator.
c10::OperatorHandle find_operator(const std::string& op);

}  // namespace vesta
