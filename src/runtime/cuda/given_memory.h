// Memory that one run allocates, and for whose addresses its CUDA graphs are recorded. In a training loop PyTorch's
// allocator gives the same addresses in each step, because each step asks for the same sizes in the same order.
#pragma once

#include <ATen/core/TensorBody.h>
#include <c10/core/Storage.h>

#include <array>
#include <cstdint>
#include <vector>

namespace vesta::runtime {

// What graphs work in besides the inputs and outputs: an arena for all steps and one for the first steps, memory for
// what extern calls allocate, and memory for inputs that each run copies.
enum class WorkMemory : uint8_t { Arena, EarlyArena, Calls, Copies };
inline constexpr size_t kWorkMemories = 4;

struct GivenMemory {
  // The outputs that recur and that extern calls in the graphs make or read.
  std::vector<int> buffers;
  std::vector<at::Tensor> tensors;  // by place in `buffers`
  // By WorkMemory; empty where the recording keeps the memory, or needs none.
  std::array<c10::Storage, kWorkMemories> work;

  const c10::Storage& of(WorkMemory which) const { return work[static_cast<size_t>(which)]; }
  int64_t bytes(WorkMemory which) const { return of(which) ? static_cast<int64_t>(of(which).nbytes()) : 0; }
};

}  // namespace vesta::runtime
