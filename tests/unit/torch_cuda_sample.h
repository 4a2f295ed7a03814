// A source that notes what it serves, and a test with a new allocator of torch's.
#pragma once

#include <gtest/gtest.h>

#include "fake_c10_cuda.h"
#include "runtime/cuda/library/forwarding_allocator.h"

namespace vesta::testing {

using runtime::AllocationSource;
using runtime::serve_thread;

class Source final : public AllocationSource {
 public:
  void* take(size_t bytes) override {
    if (fails) throw std::runtime_error("the source has no more");
    const std::lock_guard lock(mutex_);
    taken_.push_back(std::malloc(bytes));
    return taken_.back();
  }
  void give_back(void* block) noexcept override {
    const std::lock_guard lock(mutex_);
    given_back_.push_back(block);
    std::free(block);
  }
  std::vector<void*> taken() const {
    const std::lock_guard lock(mutex_);
    return taken_;
  }
  std::vector<void*> given_back() const {
    const std::lock_guard lock(mutex_);
    return given_back_;
  }
  bool fails = false;

 private:
  mutable std::mutex mutex_;
  std::vector<void*> taken_, given_back_;
};

using Calls = std::vector<std::string>;

class TorchCudaTest : public ::testing::Test {
 protected:
  TorchCudaTest() {
    CUDACachingAllocator::allocator = &torch_;
    current_device = 0;
  }
  ~TorchCudaTest() override {
    serve_thread(nullptr);
    keep(&allocator());
  }

  // Torch's, as programs call it.
  static CUDAAllocator& allocator() { return *CUDACachingAllocator::get(); }

  // No allocator is ever deleted: the leak checker finds them all here.
  static void keep(CUDAAllocator* allocator) {
    static auto* const all = new std::vector<CUDAAllocator*>;
    all->push_back(allocator);
  }

  FakeAllocator& torch_ = *new FakeAllocator;
  std::shared_ptr<Source> source_ = std::make_shared<Source>();
};

}  // namespace vesta::testing
