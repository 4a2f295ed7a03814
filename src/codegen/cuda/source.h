// A kernel with threads (loops::Threads) as CUDA C++: one function and what it needs, no header.
//
// The function's parameters are its buffers' pointers, the values of Kernel::sizes and loops::launched_items, the last
// ones as long long. It is launched with a block of `block` threads for every loops::items_of_block of them.
#pragma once

#include <string>

#include "loops/kernel.h"

namespace vesta::codegen {

std::string cuda_source(const loops::Kernel& kernel, const std::string& symbol);

// The functions and conversions that every kernel may use, in CUDA C++ and, under VESTA_ON_HOST, in plain C++.
extern const char* const kCudaPrelude;

}  // namespace vesta::codegen
