// The driver's description of a node that launches a kernel: CUDA_KERNEL_NODE_PARAMS_v2 of cuda.h. Plain data.
#pragma once

namespace vesta::machine {

struct KernelNode {
  void* function = nullptr;  // a function of one context; null if `kernel` is given
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  void** arguments = nullptr;
  void** extra = nullptr;
  void* kernel = nullptr;
  void* context = nullptr;  // null: the current one
};

}  // namespace vesta::machine
