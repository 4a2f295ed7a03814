// Steps of PyTorch's fused optimizers with numbers that change from call to call, which their operators do not take.
#pragma once

#include <ATen/core/stack.h>

#include <string>

namespace vesta::trace {

// Records the arithmetic of the operator `name` ("_fused_adam_") in the calling thread's trace. A 0-d tensor may take
// the place of a number. The step branches on whether momentum and weight_decay are 0: a tensor for one of them must
// not hold 0. Requires that gradient mode is off. Throws Unsupported.
void run_fused_step(const std::string& name, torch::jit::Stack arguments);

}  // namespace vesta::trace
