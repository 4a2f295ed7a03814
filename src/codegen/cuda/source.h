// Writes a kernel with threads (loops::Threads) as CUDA C++: one function without headers.
//
// Its parameters are the buffers' pointers, the values of Kernel::sizes and loops::launched_items, the latter as long
// long. It is launched with one block of `block` threads per loops::items_of_block items.
#pragma once

#include <string>

#include "loops/kernel.h"

namespace vesta::codegen {

std::string cuda_source(const loops::Kernel& kernel, const std::string& symbol);

// The functions and conversions that every kernel may use, in CUDA C++ and, with VESTA_ON_HOST, in plain C++.
extern const char* const kCudaPrelude;

}  // namespace vesta::codegen
