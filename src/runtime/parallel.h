// Runs work items over at::parallel_for. This is the only file compiled with OpenMP, which ATen's template needs.
#pragma once

#include <cstdint>

#include "machine/load.h"

namespace vesta::runtime {

// Runs fn over [0, items) in chunks of at least `grain` items, where there are so many. Each chunk gets the scratch of
// its thread. A thread that has done its part of the items does chunks of the other parts.
void run_parallel(machine::KernelFn fn, void* const* buffers, const int64_t* sizes, int64_t scratch_bytes,
                  int64_t items, int64_t grain);

// While such an object lives, kernels and operators that this thread runs are not divided among several threads.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread& operator=(OneThread&&) = delete;  // neither copied nor moved

 private:
  int before_;
};

// The grain for this work. 0: splitting it does not pay.
int64_t parallel_grain(int64_t items, int64_t item_nanoseconds);

}  // namespace vesta::runtime
