// Sums that need no pass of their own over a row (kernel.h, Online).
#pragma once

#include "loops/kernel.h"

namespace vesta::loops {

// Finds the sums of exp(x - m) that can be computed online, where m is the maximum of the
// same x, or 0 where the maximum is infinite, as logsumexp has it. All sums of a stage
// must be of this form, and the stage must do nothing else, since it is left out as a whole.
std::vector<Online> online_sums(const Kernel& k);

}  // namespace vesta::loops
