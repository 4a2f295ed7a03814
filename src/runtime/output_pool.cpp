#include "runtime/output_pool.h"

#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <cstdlib>
#include <list>
#include <mutex>
#include <new>

#include "base/at_fork.h"
#include "base/totals.h"

namespace vesta::runtime {

namespace {

constexpr size_t kLargeBytes = size_t{256} << 10;
constexpr size_t kKeptBytes = size_t{256} << 20;
constexpr size_t kRounding = size_t{4} << 10;
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
    void* data = take(n);
    if (!data) data = fresh((n + kRounding - 1) / kRounding * kRounding);
    // Reports as PyTorch's CPU allocator does, so that its memory profiler sees what callers hold.
    c10::profiledCPUMemoryReporter().New(data, header_of(data)->bytes);
    return {data, data, &OutputPool::give_back, c10::Device(c10::DeviceType::CPU)};
  }

  void copy_data(void* to, const void* from, size_t n) const override { default_copy_data(to, from, n); }

  void release() {
    std::list<void*> blocks;
    {
      std::lock_guard lock(mutex_);
      blocks.swap(free_);
      keep(0);
    }
    for (void* b : blocks) std::free(header_of(b));
  }

  static OutputPool& instance() {
    static auto* const pool = new OutputPool;  // outlives tensors in static storage
    return *pool;
  }

 private:
  // The most recently freed block that fits and wastes at most a sixteenth.
  void* take(size_t n) {
    std::lock_guard lock(mutex_);
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      const size_t bytes = header_of(*it)->bytes;
      if (bytes < n || bytes - n > n / 16 + kRounding) continue;
      void* data = *it;
      free_.erase(it);
      keep(free_bytes_ - bytes);
      return data;
    }
    return nullptr;
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
    std::list<void*> evicted;
    {
      std::lock_guard lock(pool.mutex_);
      pool.free_.push_front(data);
      size_t bytes = pool.free_bytes_ + header_of(data)->bytes;
      while (bytes > kKeptBytes) {
        bytes -= header_of(pool.free_.back())->bytes;
        evicted.splice(evicted.end(), pool.free_, std::prev(pool.free_.end()));
      }
      pool.keep(bytes);
    }
    for (void* b : evicted) std::free(header_of(b));
  }

  void keep(size_t bytes) {
    free_bytes_ = bytes;
    held_.set(static_cast<int64_t>(bytes));
  }

  std::mutex mutex_;
  std::list<void*> free_;  // most recently freed first
  size_t free_bytes_ = 0;
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
