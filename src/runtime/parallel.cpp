#include "runtime/parallel.h"

#include <ATen/Parallel.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>

#include "runtime/workspace.h"

#if AT_PARALLEL_OPENMP && !defined(_OPENMP) && !defined(__clang_analyzer__)
#error "without -fopenmp at::parallel_for runs everything on the calling thread"
#endif

namespace vesta::runtime {

namespace {

constexpr int64_t kSplitAbove = 20'000;   // ns of work in total; waking threads costs about 5 us
constexpr int64_t kChunkAtLeast = 8'000;  // ns
constexpr int64_t kChunksOfPart = 8;      // the last chunk of a part is the time for which the other threads may wait
constexpr int64_t kPartsOnStack = 32;

// The items of one thread. Threads that are done with their own take chunks of it, too.
struct alignas(64) Part {
  std::atomic<int64_t> next;
  int64_t end = 0;
};

}  // namespace

// Of this thread. at::set_num_threads() would change the other threads of the process.
static void set_own_threads([[maybe_unused]] int n) {
#ifdef _OPENMP
  omp_set_num_threads(n);
#endif
}

OneThread::OneThread() : before_(at::get_num_threads()) { set_own_threads(1); }
OneThread::~OneThread() { set_own_threads(before_); }

int64_t parallel_grain(int64_t items, int64_t item_nanoseconds) {
  item_nanoseconds = std::max<int64_t>(item_nanoseconds, 1);
  if (items < 2 || items <= kSplitAbove / item_nanoseconds) return 0;
  return std::max<int64_t>(1, kChunkAtLeast / item_nanoseconds);
}

void run_parallel(machine::KernelFn fn, void* const* buffers, const int64_t* sizes, int64_t scratch_bytes,
                  int64_t items, int64_t grain) {
  const auto scratch = [=] { return scratch_bytes ? thread_scratch(scratch_bytes) : nullptr; };
  const int64_t count = std::min<int64_t>(at::get_num_threads(), (items + grain - 1) / grain);
  if (count < 2 || at::in_parallel_region()) return fn(buffers, sizes, scratch(), 0, items);
  std::array<Part, kPartsOnStack> few;
  const std::unique_ptr<Part[]> many =
      count > kPartsOnStack ? std::make_unique<Part[]>(static_cast<size_t>(count)) : nullptr;
  Part* const parts = many ? many.get() : few.data();
  // The same items come to the same thread in each call, and mostly neighbours of those of the kernel before, so that a
  // core finds in its caches what it wrote.
  for (int64_t i = 0; i < count; ++i) {
    parts[i].next.store(items * i / count, std::memory_order_relaxed);
    parts[i].end = items * (i + 1) / count;
  }
  const int64_t chunk = std::max(grain, items / count / kChunksOfPart);
  at::parallel_for(0, count, 1, [&](int64_t first, int64_t last) {
    void* const memory = scratch();
    for (int64_t own = first; own < last; ++own)
      for (int64_t k = 0; k < count; ++k) {
        Part& part = parts[(own + k) % count];
        while (part.next.load(std::memory_order_relaxed) < part.end) {
          const int64_t begin = part.next.fetch_add(chunk, std::memory_order_relaxed);
          if (begin >= part.end) break;
          fn(buffers, sizes, memory, begin, std::min(begin + chunk, part.end));
        }
      }
  });
}

}  // namespace vesta::runtime
