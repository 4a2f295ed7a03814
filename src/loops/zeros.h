// Kernels on memory of zeros, in which their operands are not known.
#pragma once

#include "loops/kernel.h"

namespace vesta::loops {

// Whether the kernel may run where all that it reads is zero, over and over: what it indexes with values are elements
// that are there (the first ones), its assertions hold, and no such place is written.
bool runs_on_zeros(const Kernel& k);

}  // namespace vesta::loops
