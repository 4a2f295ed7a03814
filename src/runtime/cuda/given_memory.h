// Memory of one run for the outputs that recur and that extern calls in its CUDA graphs make or read. The graphs are
// recorded for its addresses. In a training loop PyTorch's allocator gives the same addresses in each step, because
// each step asks for the same sizes in the same order.
#pragma once

#include <ATen/core/TensorBody.h>

#include <vector>

namespace vesta::runtime {

struct GivenMemory {
  std::vector<int> buffers;
  std::vector<at::Tensor> tensors;  // by place in `buffers`
};

}  // namespace vesta::runtime
