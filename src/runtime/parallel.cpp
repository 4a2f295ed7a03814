#include "runtime/parallel.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "runtime/workspace.h"

#if AT_PARALLEL_OPENMP && !defined(_OPENMP) && !defined(__clang_analyzer__)
#error "without -fopenmp at::parallel_for runs everything on the calling thread"
#endif

namespace vesta::runtime {

namespace {
constexpr int64_t kSplitAbove = 20'000;   // ns of work in total; waking threads costs about 5 us
constexpr int64_t kChunkAtLeast = 8'000;  // ns
}  // namespace

int64_t parallel_grain(int64_t items, int64_t item_nanoseconds) {
  item_nanoseconds = std::max<int64_t>(item_nanoseconds, 1);
  if (items < 2 || items <= kSplitAbove / item_nanoseconds) return 0;
  return std::max<int64_t>(1, kChunkAtLeast / item_nanoseconds);
}

void run_parallel(machine::KernelFn fn, void* const* buffers, const int64_t* sizes, int64_t scratch_bytes,
                  int64_t items, int64_t grain) {
  at::parallel_for(0, items, grain, [=](int64_t begin, int64_t end) {
    fn(buffers, sizes, scratch_bytes ? thread_scratch(scratch_bytes) : nullptr, begin, end);
  });
}

}  // namespace vesta::runtime
