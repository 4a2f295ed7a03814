// ATen's structured shape functions (at::meta::*) by operator. The dispatcher's Meta key reaches the same functions in a
// program without Python; with Python it holds Python's slower copies of them.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace vesta::trace {

// False if there is none: the stack is as before.
bool call_meta_function(const c10::OperatorHandle& op, torch::jit::Stack& stack);

}  // namespace vesta::trace
