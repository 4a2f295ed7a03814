// Finds the sums of softmax and of variances that need no pass of their own over a row (Online in kernel.h).
#pragma once

#include <string_view>

#include "loops/kernel.h"

namespace vesta::loops {

// The word for a kind in the text of a kernel, with a blank after it; empty for OnlineKind::Exp.
inline constexpr std::string_view kOnlineKinds[] = {"", "finite ", "squares "};

// The sums that can be computed online. All sums of a stage must have such a form, and the stage must do nothing else,
// because it is left out as a whole.
std::vector<Online> online_sums(const Kernel& k);

// Whether r is the value of a sum of exp(x - m), where m is the maximum of x over the row: at least 1, or NaN.
bool is_relative_sum(const Kernel& k, Ref r);

// The term of the sum r, an instruction exp(x - m), where m is the maximum of x over the row, if nothing else reads it.
// Such a term needs to be exact only relative to the sum, which is at least 1. kNoRef: r is no such sum.
Ref relative_term(const Kernel& k, Ref r);

}  // namespace vesta::loops
