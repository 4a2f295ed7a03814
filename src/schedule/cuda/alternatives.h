// Alternative schedules of a GPU kernel (schedule/alternatives.h).
#pragma once

#include <memory>
#include <vector>

#include "base/target.h"
#include "loops/kernel.h"

namespace vesta::schedule {

// Kernels that differ from this one in Threads and tile size alone. They compute the same, with sums in another order.
// Each is verified and fits the target's registers and shared memory. At most 12; those that differ least come first.
std::vector<std::shared_ptr<const loops::Kernel>> thread_alternatives(const loops::Kernel& kernel,
                                                                      const Target& target);

}  // namespace vesta::schedule
