#include "runtime/cuda/library/forwarding_allocator.h"

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace vesta::runtime {
namespace {

using namespace c10;                              // NOLINT(google-build-using-namespace): the generated functions
using namespace c10::cuda;                        // NOLINT(google-build-using-namespace) name types as torch's
using namespace c10::cuda::CUDACachingAllocator;  // NOLINT(google-build-using-namespace) headers do

thread_local std::shared_ptr<AllocationSource> source_of_thread;

// Blocks that a source gave and that have not gone back to it. Few: those of one capture.
class ServedBlocks {
 public:
  void* take(const std::shared_ptr<AllocationSource>& source, size_t bytes) {
    void* const block = source->take(bytes);
    const std::lock_guard lock(mutex_);
    blocks_[block] = source;
    count_ = blocks_.size();
    return block;
  }
  bool has(const void* block) {
    if (count_ == 0) return false;
    const std::lock_guard lock(mutex_);
    return blocks_.count(block) != 0;
  }
  bool give_back(void* block) {
    if (count_ == 0) return false;
    std::shared_ptr<AllocationSource> source;
    {
      const std::lock_guard lock(mutex_);
      const auto found = blocks_.find(block);
      if (found == blocks_.end()) return false;
      source = std::move(found->second);
      blocks_.erase(found);
      count_ = blocks_.size();
    }
    source->give_back(block);
    return true;
  }

 private:
  std::atomic<size_t> count_{0};
  std::mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<AllocationSource>> blocks_;
};

ServedBlocks& served() {
  static auto* blocks = new ServedBlocks;  // tensors in static storage may outlive this library's
  return *blocks;
}

class ForwardingAllocator final : public CUDAAllocator {
 public:
  explicit ForwardingAllocator(CUDAAllocator* to) : to_(to) {}
  CUDAAllocator* to() const { return to_; }

  DataPtr allocate(size_t bytes) override {
    const std::shared_ptr<AllocationSource> source = source_of_thread;
    if (!source || bytes == 0) return to_->allocate(bytes);
    void* const block = served().take(source, bytes);
    return {block, block, &release, Device(kCUDA, c10::cuda::current_device())};
  }
  DeleterFnPtr raw_deleter() const override { return &release; }
  void* raw_alloc(size_t bytes) override {
    const std::shared_ptr<AllocationSource> source = source_of_thread;
    return source && bytes != 0 ? served().take(source, bytes) : to_->raw_alloc(bytes);
  }
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override {
    const std::shared_ptr<AllocationSource> source = source_of_thread;
    return source && bytes != 0 ? served().take(source, bytes) : to_->raw_alloc_with_stream(bytes, stream);
  }
  void raw_delete(void* block) override {
    if (!served().give_back(block)) to_->raw_delete(block);
  }
  // A source's memory is nobody else's to use again: there is nothing to delay.
  void recordStream(const DataPtr& block, CUDAStream stream) override {
    if (!served().has(block.get())) to_->recordStream(block, stream);
  }
  void recordStream(const DataPtr& block, c10::Stream stream) override {
    if (!served().has(block.get())) to_->recordStream(block, stream);
  }

#include "vesta_forwarding_allocator.inc"

 private:
  static void release(void* block) {
    if (!served().give_back(block)) torch_allocator()->raw_delete(block);
  }
  CUDAAllocator* const to_;
};

std::mutex install_mutex;
std::atomic<ForwardingAllocator*> installed{nullptr};

void install() {
  const std::lock_guard lock(install_mutex);
  CUDAAllocator* const now = allocator.load();
  if (now == installed) return;
  auto* const ours = new ForwardingAllocator(now);  // tensors have its address as long as the process
  installed = ours;
  allocator.store(ours);
}

}  // namespace

c10::cuda::CUDACachingAllocator::CUDAAllocator* torch_allocator() {
  CUDAAllocator* const now = allocator.load();
  const ForwardingAllocator* const ours = installed;
  return ours && now == ours ? ours->to() : now;
}

std::shared_ptr<AllocationSource> serve_thread(std::shared_ptr<AllocationSource> source) {
  if (source) install();
  return std::exchange(source_of_thread, std::move(source));
}

}  // namespace vesta::runtime
