// How long a GPU takes for a kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "machine/load.h"

namespace vesta::machine {

// What launches are given.
struct Trial {
  struct Buffer {
    int64_t start = 0;   // of what the pointer names, in bytes from the beginning of a launch's memory
    bool value = false;  // no pointer, a zero
  };
  std::vector<Buffer> buffers;
  int64_t bytes = 0;  // of memory of a launch, all of it zero before the first
  std::vector<int64_t> sizes;
  double about_us = 0;  // of a launch
};

struct TimedKernel {
  const Object* object = nullptr;
  LaunchShape shape = {};
  int64_t items = 0;
};

class Meter {
 public:
  virtual ~Meter() = default;
  // Microseconds of a launch of each kernel, infinity where the GPU does not take it. Each is measured in turn, several
  // times, on memory that the last launches have not used as far as there is some: the fastest time counts. nullopt:
  // there is no memory for it. Throws InternalError and Unsupported where the driver does.
  virtual std::optional<std::vector<double>> measure(const Trial& trial, std::span<const TimedKernel> kernels) = 0;
};

// On a stream of its own, by CUDA graphs and events, in memory of the driver that it holds as long as it lives: at most
// half of what is free. `cache_bytes`: of the GPU's last cache. Of the current context, which is that of the device;
// lives in one thread.
std::unique_ptr<Meter> make_meter(int device, int64_t cache_bytes);

}  // namespace vesta::machine
