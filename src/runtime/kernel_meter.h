// Measures kernels on the CPU with as many threads as a run uses.
#pragma once

#include <memory>

#include "machine/meter.h"

namespace vesta::runtime {

// Holds memory as long as it lives: twice `cache_bytes`, the size of the last cache, and what a launch needs. For one
// thread. Nothing else should run meanwhile.
std::unique_ptr<machine::Meter> make_kernel_meter(int64_t cache_bytes);

}  // namespace vesta::runtime
