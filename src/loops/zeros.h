// Decides whether a kernel can be timed on memory of zeros, when its operands are not known.
#pragma once

#include "loops/kernel.h"

namespace vesta::loops {

// Whether the kernel may run again and again where all memory that it reads is zero: the elements that it indexes with
// values exist (they are the first ones), its assertions hold, and it writes no such element.
bool runs_on_zeros(const Kernel& k);

}  // namespace vesta::loops
