// Other schedules of a GPU's kernel, for those who can measure which is the fastest.
#pragma once

#include <memory>
#include <vector>

#include "base/target.h"
#include "loops/kernel.h"

namespace vesta::schedule {

// Kernels that differ from this one in Threads, and the size of a tile, alone: they compute the same, sums in another
// order. Each is verified and fits the target's registers and shared memory. At most 12, those that differ least first.
std::vector<std::shared_ptr<const loops::Kernel>> alternatives(const loops::Kernel& kernel, const Target& target);

}  // namespace vesta::schedule
