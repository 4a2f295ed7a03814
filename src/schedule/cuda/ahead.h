// What a GPU's kernel fetches before it waits for the kernels before it.
#pragma once

#include <vector>

#include "loops/kernel.h"

namespace vesta::schedule {

// `weights`: of each buffer of the kernel, whether it is a weight, which the kernels before this one do not compute.
// Long rows of them are fetched into the second cache while those kernels still run: the memory is not idle between two
// kernels (programmatic dependent launch, CUDA C++ Programming Guide).
void fetch_ahead(loops::Kernel& kernel, const std::vector<bool>& weights);

}  // namespace vesta::schedule
