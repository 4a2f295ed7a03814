// Steps of PyTorch's fused optimizers with numbers that change from call to call, which their operators do not take.
#pragma once

#include <ATen/core/stack.h>

#include <string>

namespace vesta::trace {

// The arguments of the operator ("_fused_adam_") in the calling thread's trace. A number may be a 0-d tensor. The
// operator branches on whether momentum and weight_decay are 0: a tensor for one of these must not be. Requires that
// gradient mode is off. Throws Unsupported.
void run_fused_step(const std::string& name, torch::jit::Stack arguments);

}  // namespace vesta::trace
