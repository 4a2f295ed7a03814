#include "runtime/output_pool.h"

#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "base/at_fork.h"
#include "base/totals.h"
#include "runtime/free_blocks.h"

namespace vesta::runtime {

namespace {

constexpr size_t kLargeBytes = size_t{256} << 10;
constexpr size_t kPage = size_t{4} << 10;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kHeader = 64;  // before the data, which keeps PyTorch's alignment

struct Header {
  size_t bytes;  // of the data
};

Header* header_of(void* data) { return reinterpret_cast<Header*>(static_cast<char*>(data) - kHeader); }

class OutputPool final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t n) override {
    if (n < kLargeBytes) return c10::GetCPUAllocator()->allocate(n);
    void* const data = take(n);
    // Reports as PyTorch's CPU allocator does, so that its memory profiler sees what callers hold.
    c10::profiledCPUMemoryReporter().New(data, header_of(data)->bytes);
    return {data, data, &OutputPool::give_back, c10::Device(c10::DeviceType::CPU)};
  }

  void copy_data(void* to, const void* from, size_t n) const override { default_copy_data(to, from, n); }

  void release() {
    std::vector<void*> blocks;
    {
      std::lock_guard lock(mutex_);
      blocks = free_.drop_all();
      held_.set(0);
    }
    for (void* b : blocks) std::free(header_of(b));
  }

  static OutputPool& instance() {
    static auto* const pool = new OutputPool;  // outlives tensors in static storage
    return *pool;
  }

 private:
  void* take(size_t n) {
    const size_t rounded = (n + kHeader - 1) / kHeader * kHeader;
    void* data = nullptr;
    update([&] {
      data = free_.take(n);
      if (!data) free_.note_new(rounded);
    });
    if (data) return data;
    try {
      return fresh(rounded);
    } catch (...) {
      update([&] { free_.forget(rounded); });
      throw;
    }
  }

  void* fresh(size_t bytes) {
    const bool huge = bytes >= 2 * kHugePage;
    const size_t alignment = huge ? kHugePage : kHeader;
    const size_t total = (bytes + kHeader + alignment - 1) / alignment * alignment;
    void* base = std::aligned_alloc(alignment, total);
    if (!base) {
      release();
      base = std::aligned_alloc(alignment, total);
      if (!base) {
        c10::GetCPUAllocator()->allocate(bytes);  // fails with PyTorch's message
        throw std::bad_alloc();
      }
    }
    if (huge) madvise(base, total, MADV_HUGEPAGE);
    static_cast<Header*>(base)->bytes = bytes;
    return static_cast<char*>(base) + kHeader;
  }

  static void give_back(void* data) {
    c10::profiledCPUMemoryReporter().Delete(data);
    OutputPool& pool = instance();
    pool.update([&] { pool.free_.give_back({data, header_of(data)->bytes}); });
  }

  // Changes the kept blocks, and frees those that are too many now.
  template <class Change>
  void update(const Change& change) {
    std::vector<void*> dropped;
    {
      std::lock_guard lock(mutex_);
      change();
      dropped = free_.drop();
      for (const FreeBlocks::Block& b : free_.spare()) lend_pages(b);
      held_.set(static_cast<int64_t>(free_.bytes()));
    }
    for (void* b : dropped) std::free(header_of(b));
  }

  // Lets the operating system take the pages of a kept block, but not the page of its header. Of huge pages it offers
  // whole ones only, because the system would divide the others.
  static void lend_pages(const FreeBlocks::Block& b) {
    const uintptr_t page = b.bytes >= 2 * kHugePage ? kHugePage : kPage;
    const auto begin = reinterpret_cast<uintptr_t>(b.memory), end = begin + b.bytes;
    const uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;
    if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_FREE);
  }

  std::mutex mutex_;
  FreeBlocks free_;
  totals::KeptBytes held_{totals::Memory::KeptOutputs};
  static const AtFork at_fork_;
};

// A child process must find the mutex free, whichever thread held it in the parent.
const AtFork OutputPool::at_fork_(
    ForkStage::Registries, [] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
    [] { instance().mutex_.unlock(); });

}  // namespace

c10::Allocator& output_allocator() { return OutputPool::instance(); }

}  // namespace vesta::runtime
