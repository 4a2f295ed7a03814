// Work items over at::parallel_for. The one file compiled with OpenMP, which ATen's template needs.
#pragma once

#include <cstdint>

#include "machine/load.h"

namespace vesta::runtime {

// Runs fn over [0, items) with `grain` items at least in a chunk; each chunk gets scratch of its own thread.
void run_parallel(machine::KernelFn fn, void* const* buffers, const int64_t* sizes, int64_t scratch_bytes,
                  int64_t items, int64_t grain);

// The grain for this work, or 0 where splitting does not pay.
int64_t parallel_grain(int64_t items, int64_t item_nanoseconds);

}  // namespace vesta::runtime
