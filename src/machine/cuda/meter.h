// Measures kernels on a GPU.
#pragma once

#include <memory>

#include "machine/meter.h"

namespace vesta::machine {

// Measures in the current context, which must be the device's, with a stream, CUDA graphs and events of its own. Holds
// driver memory as long as it lives: at most half of what is free. `cache_bytes`: size of the GPU's last cache. For one
// thread.
std::unique_ptr<Meter> make_meter(int device, int64_t cache_bytes);

}  // namespace vesta::machine
