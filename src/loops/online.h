// Sums that need no pass of their own over a row (kernel.h, Online).
#pragma once

#include "loops/kernel.h"

namespace vesta::loops {

// What the kernel's stages allow: each sum of exp(x - m), m being the maximum of the same x, where every sum of its
// stage is one and the stage does nothing else.
std::vector<Online> online_sums(const Kernel& k);

}  // namespace vesta::loops
