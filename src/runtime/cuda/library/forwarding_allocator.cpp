#include "runtime/cuda/library/forwarding_allocator.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <utility>

#include "runtime/cuda/library/raw_blocks.h"

namespace vesta::runtime {
namespace {

// The generated functions name types as headers in these namespaces do.
using namespace c10;
using namespace c10::cuda;
using namespace c10::cuda::CUDACachingAllocator;

thread_local std::shared_ptr<AllocationSource> source_of_thread;

// The context of a DataPtr. It is not the block itself, so that raw_allocate(), whose caller would free the block by
// the deleter of PyTorch's allocator, throws on it.
struct ServedBlock {
  std::shared_ptr<AllocationSource> source;
  void* block = nullptr;
};

void give_back(void* context) {
  const std::unique_ptr<ServedBlock> served(static_cast<ServedBlock*>(context));
  served->source->give_back(served->block);
}

RawBlocks& raw_blocks() {
  static auto* const blocks = new RawBlocks;  // blocks may be freed while the process ends
  return *blocks;
}

class ForwardingAllocator final : public CUDAAllocator {
 public:
  explicit ForwardingAllocator(CUDAAllocator* to) : to_(to) {}

  DataPtr allocate(size_t bytes) override {
    if (!source_of_thread || bytes == 0) return to_->allocate(bytes);
    const Device device(kCUDA, c10::cuda::current_device());
    auto served = std::make_unique<ServedBlock>(ServedBlock{source_of_thread});
    void* const block = served->block = served->source->take(bytes);
    return {block, served.release(), &give_back, device};
  }
  void* raw_alloc(size_t bytes) override {
    if (!source_of_thread || bytes == 0) return to_->raw_alloc(bytes);
    return raw_blocks().take(source_of_thread, bytes);
  }
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override {
    if (!source_of_thread || bytes == 0) return to_->raw_alloc_with_stream(bytes, stream);
    return raw_blocks().take(source_of_thread, bytes);
  }
  void raw_delete(void* block) override {
    if (!raw_blocks().give_back(block)) to_->raw_delete(block);
  }
  // Notes that another stream uses a block. A source's memory has one user, so there is nothing to delay.
  void recordStream(const DataPtr& block, CUDAStream stream) override {
    if (block.get_deleter() != &give_back) to_->recordStream(block, stream);
  }
  void recordStream(const DataPtr& block, c10::Stream stream) override {
    if (block.get_deleter() != &give_back) to_->recordStream(block, stream);
  }
  // One of these functions is raw_deleter(): PyTorch compares it with the deleters of blocks from its own allocator.
#include "vesta_forwarding_allocator.inc"

 private:
  CUDAAllocator* const to_;
};

void install() {
  CUDAAllocator* now = allocator.load();
  while (!dynamic_cast<ForwardingAllocator*>(now)) {
    auto* const ours = new ForwardingAllocator(now);
    // A stored allocator is never deleted: code that has read its address may use it as long as the process lives.
    if (allocator.compare_exchange_strong(now, ours)) return;
    delete ours;
  }
}

// While it lives, the calling thread has no source.
class Unserved {
 public:
  Unserved() = default;
  ~Unserved() { source_of_thread = std::move(source_); }
  Unserved(const Unserved&) = delete;

 private:
  std::shared_ptr<AllocationSource> source_ = std::exchange(source_of_thread, nullptr);
};

}  // namespace

std::shared_ptr<AllocationSource> serve_thread(std::shared_ptr<AllocationSource> source) {
  if (source) install();
  return std::exchange(source_of_thread, std::move(source));
}

void* allocate_unserved(size_t bytes, cudaStream_t stream) {
  const Unserved here;
  return allocator.load()->raw_alloc_with_stream(bytes, stream);
}

void free_unserved(void* block) { allocator.load()->raw_delete(block); }

}  // namespace vesta::runtime
