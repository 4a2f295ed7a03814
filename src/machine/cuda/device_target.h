// A GPU of this machine as a Target. It asks the driver only and does not start the CUDA runtime.
#pragma once

#include "base/target.h"

namespace vesta::machine {

// The GPU as the driver describes it, read once per device and process: compute capability, multiprocessors, caches,
// memory. nullptr: there is no driver or no such device; `why` gets the reason. Thread-safe.
const Target* cuda_target(int device, std::string* why = nullptr);

// The typical GPU of compute capability arch / 10, arch % 10, for compiles on machines without one and for tests.
Target cuda_target_of(int arch);

}  // namespace vesta::machine
