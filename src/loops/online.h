// Finds softmax's sums that need no pass of their own over a row (Online in kernel.h).
#pragma once

#include "loops/kernel.h"

namespace vesta::loops {

// The sums of exp(x - m) that can be computed online, where m is the maximum of the same x, or 0 where the maximum is
// infinite, as in logsumexp. All sums of a stage must have this form, and the stage must do nothing else, because it is
// left out as a whole.
std::vector<Online> online_sums(const Kernel& k);

}  // namespace vesta::loops
