#pragma once

#include "schedule/plan.h"

namespace vesta::schedule {

// Layers of a model are often the same products with other sizes. Kernels for a CPU that compute products in registers
// and differ in their sizes alone become one kernel, to which each step passes its sizes: it is compiled once. A size
// that all of them have stays a constant, and so does what divides all values of a size. Plans of equal graphs stay
// equal.
void share_kernels(Plan& plan);

}  // namespace vesta::schedule
