// Alternative schedules of a kernel, for tuning by measurement.
#pragma once

#include <memory>
#include <vector>

#include "base/target.h"
#include "loops/kernel.h"

namespace vesta::schedule {

// Kernels that differ from this one in how their work is divided alone: in Threads and tile size on a GPU, in the tiles
// and blocks of a product and in the length of vectors on a CPU. They compute the same, with sums in another order.
// Each is verified and fits the target's registers and, on a GPU, shared memory. At most 12, the most promising ones
// first.
std::vector<std::shared_ptr<const loops::Kernel>> alternatives(const loops::Kernel& kernel, const Target& target);

}  // namespace vesta::schedule
