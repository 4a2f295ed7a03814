// In the place of torch's libc10_cuda, which a CPU build of PyTorch lacks: an allocator that notes its calls.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <fmt/format.h>

#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace vesta::testing {

using namespace c10;
using namespace c10::cuda;
using namespace c10::cuda::CUDACachingAllocator;

class FakeAllocator final : public CUDAAllocator {
 public:
  explicit FakeAllocator(std::string name = "fake") : name_(std::move(name)) {}

  DataPtr allocate(size_t bytes) override {
    note("allocate {}", bytes);
    void* const block = bytes ? std::malloc(bytes) : nullptr;
    return {block, block, &std::free, Device(kCUDA, 0)};
  }
  DeleterFnPtr raw_deleter() const override { return &std::free; }
  void* raw_alloc(size_t bytes) override {
    note("raw_alloc {}", bytes);
    return bytes ? std::malloc(bytes) : nullptr;
  }
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override {
    note("raw_alloc_with_stream {} {}", bytes, fmt::ptr(stream));
    return bytes ? std::malloc(bytes) : nullptr;
  }
  void raw_delete(void* block) override {
    note("raw_delete {}", fmt::ptr(block));
    std::free(block);
  }
  void recordStream(const DataPtr& block, CUDAStream stream) override {
    note("recordStream {} CUDAStream {}", fmt::ptr(&block), stream.id());
  }
  void recordStream(const DataPtr& block, c10::Stream stream) override {
    note("recordStream {} Stream {}", fmt::ptr(&block), stream.id());
  }
  void emptyCache(MempoolId_t pool) override { note("emptyCache {} {}", pool.first, pool.second); }
  void cacheInfo(DeviceIndex device, size_t* largest) override {
    note("cacheInfo {}", int{device});
    *largest = 7;
  }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
    note("getIpcDevPtr {}", handle);
    return ipc_;
  }
  void beginAllocateToPool(DeviceIndex device, MempoolId_t pool, std::function<bool(cudaStream_t)> filter) override {
    note("beginAllocateToPool {} {} {}", int{device}, pool.second, filter(nullptr));
  }
  std::string name() override { return name_; }
// All other functions throw.
#include "vesta_fake_allocator.inc"

  // The calls since the last question.
  std::vector<std::string> calls() {
    const std::lock_guard lock(mutex_);
    return std::exchange(calls_, {});
  }
  const std::shared_ptr<void>& ipc() const { return ipc_; }

 private:
  struct Absent {
    CUDAAllocator* operator->() const { throw std::logic_error("the fake allocator does not have this function"); }
  };
  template <class... Values>
  void note(fmt::format_string<Values...> format, Values&&... values) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(fmt::format(format, std::forward<Values>(values)...));
  }

  const Absent to_{};
  const std::string name_;
  const std::shared_ptr<void> ipc_ = std::make_shared<int>(0);
  std::mutex mutex_;
  std::vector<std::string> calls_;
};

// For all threads.
inline std::atomic<c10::DeviceIndex> current_device{0};
inline std::atomic<int> errors_forgotten{0};

}  // namespace vesta::testing
