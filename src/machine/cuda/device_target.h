// A GPU of this machine as a target.
#pragma once

#include "base/target.h"

namespace vesta::machine {

// As the driver describes it, once per device and process: compute capability, multiprocessors, caches, memory.
// nullptr: there is no driver or no such device, for the reason `why`. Thread-safe.
const Target* cuda_target(int device, std::string* why = nullptr);

// What a GPU of compute capability arch / 10, arch % 10 has in common with others of its kind: for compiles on machines
// without it, and for tests.
Target cuda_target_of(int arch);

}  // namespace vesta::machine
