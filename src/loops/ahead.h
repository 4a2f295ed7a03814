// Rows that a GPU's kernel fetches before it waits for the kernels before it (kernel.h, Ahead).
#pragma once

#include <vector>

#include "loops/kernel.h"

namespace vesta::loops {

// The stages at the kernel's beginning that touch no memory: what loads are masked by, and nothing that must wait.
size_t stages_without_memory(const Kernel& k);

// The loads in loops over rows whose elements of a row lie side by side, begin at a multiple of 16 bytes at a place that
// no value in memory decides, and are read whole or not at all, which those stages know.
std::vector<Ref> rows_to_fetch(const Kernel& k);

}  // namespace vesta::loops
