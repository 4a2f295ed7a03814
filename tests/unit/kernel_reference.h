// Kernels without a code generator: what a kernel computes, and how load() runs kernels that are text. Linked into the
// tests of all stages that have kernels; artifacts made by hand hold such kernels.
#pragma once

#include "loops/kernel.h"

namespace vesta::loops {

// Runs a kernel slowly in plain C++: the meaning of the IR as code. `buffers`: one pointer each; `sizes`: values of
// k.sizes.
void interpret(const Kernel& k, std::span<void* const> buffers, std::span<const int64_t> sizes, int64_t begin,
               int64_t end);

}  // namespace vesta::loops
