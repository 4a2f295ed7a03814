// Tensors inside of a functional transform of torch.func: vmap, grad and jvp wrap the tensors that they give to a
// function, and unwrap what it returns. So does a backward pass for many tangents at once. PyTorch's kernels for the
// transforms run above the trace's dispatch key, so the trace sees the operators on what is wrapped.
#pragma once

#include <ATen/core/Tensor.h>

namespace vesta::trace {

bool is_wrapped(const at::TensorBase& t);
// What the wrappers hold, through all levels; the tensor itself if it is not wrapped.
at::Tensor unwrapped(at::Tensor t);

}  // namespace vesta::trace
