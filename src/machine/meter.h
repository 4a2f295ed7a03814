// Measures how long the machine takes for a kernel. Results of kernels are not looked at, and no tensor of the program
// is used. For a GPU: cuda/meter.h, for the CPU: runtime/kernel_meter.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "machine/load.h"

namespace vesta::machine {

// The arguments of the launches to measure.
struct Trial {
  struct Buffer {
    int64_t start = 0;      // where the pointer points, in bytes from the beginning of the launch's memory
    bool value = false;     // not a pointer: the argument is a zero
    bool constant = false;  // a weight
  };
  std::vector<Buffer> buffers;
  int64_t bytes = 0;  // size of the memory of one launch; all zero before the first launch
  std::vector<int64_t> sizes;
  double about_us = 0;  // rough estimate for one launch
};

struct TimedKernel {
  const Object* object = nullptr;
  LaunchShape shape = {};  // on a GPU
  int64_t items = 0;
  // On a CPU: bytes of scratch that a thread needs, and nanoseconds of an item, for the division among threads.
  int64_t scratch = 0, item_ns = 0;
};

class Meter {
 public:
  virtual ~Meter() = default;
  // Microseconds of a launch of each kernel; infinity if the GPU refuses the kernel. Kernels are measured in turn,
  // several times, and the fastest time counts. If there is enough memory, a launch on a GPU uses memory that the
  // preceding launches have not used, and one on a CPU such weights. nullopt: there is not enough memory. Throws the
  // driver's InternalError and Unsupported.
  virtual std::optional<std::vector<double>> measure(const Trial& trial, std::span<const TimedKernel> kernels) = 0;
};

}  // namespace vesta::machine
