// A batch of tangents as one tensor, in a backward pass for many of them at once (is_grads_batched). PyTorch has a
// class of tensors for it that is older than those of torch.func; the headers of both cannot be included together.
#pragma once

#include <ATen/core/Tensor.h>

namespace vesta::trace {

// What such a tensor holds; undefined: it is none.
at::Tensor in_tangent_batch(const at::Tensor& t);

}  // namespace vesta::trace
