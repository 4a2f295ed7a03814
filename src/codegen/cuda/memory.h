// How much memory NVRTC takes to make code of kernels. It can neither be stopped nor survive a failed allocation, so
// this is estimated before. The constants are upper bounds of measurements on the heap of one thread, over chains of 4
// to 60 primitives of each kind and over rows in registers; tests/unit/memory_cuda.cpp measures again.
#pragma once

#include <cstdint>

#include "loops/kernel.h"

namespace vesta::codegen {

// An estimate in bytes for a kernel alone. Kernels of one program take less than the sum.
int64_t nvrtc_memory(const loops::Kernel& kernel);

}  // namespace vesta::codegen
