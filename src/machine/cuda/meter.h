// Measures how long a GPU takes for a kernel. Results of kernels are not looked at, and no tensor of the program is
// used.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "machine/load.h"

namespace vesta::machine {

// The arguments of the launches to measure.
struct Trial {
  struct Buffer {
    int64_t start = 0;   // where the pointer points, in bytes from the beginning of the launch's memory
    bool value = false;  // not a pointer: the argument is a zero
  };
  std::vector<Buffer> buffers;
  int64_t bytes = 0;  // size of the memory of one launch; all zero before the first launch
  std::vector<int64_t> sizes;
  double about_us = 0;  // rough estimate for one launch
};

struct TimedKernel {
  const Object* object = nullptr;
  LaunchShape shape = {};
  int64_t items = 0;
};

class Meter {
 public:
  virtual ~Meter() = default;
  // Microseconds of a launch of each kernel; infinity if the GPU refuses the kernel. Kernels are measured in turn,
  // several times, and the fastest time counts. If there is enough memory, a launch uses memory that the preceding
  // launches have not used. nullopt: there is not enough memory. Throws the driver's InternalError and Unsupported.
  virtual std::optional<std::vector<double>> measure(const Trial& trial, std::span<const TimedKernel> kernels) = 0;
};

// Measures in the current context, which must be the device's, with a stream, CUDA graphs and events of its own. Holds
// driver memory as long as it lives: at most half of what is free. `cache_bytes`: size of the GPU's last cache. For one
// thread.
std::unique_ptr<Meter> make_meter(int device, int64_t cache_bytes);

}  // namespace vesta::machine
