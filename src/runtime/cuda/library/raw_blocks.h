// Blocks that sources have served as bare pointers, which do not say where they came from.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "runtime/cuda/torch_cuda.h"

namespace vesta::runtime {

// Thread-safe. It holds few blocks: those of a capture.
class RawBlocks {
 public:
  // A new block of `bytes` > 0. The source lives as long as its block. Throws what the source throws.
  void* take(std::shared_ptr<AllocationSource> source, size_t bytes) {
    void* const block = source->take(bytes);
    const std::lock_guard lock(mutex_);
    sources_[block] = std::move(source);
    count_ = sources_.size();
    return block;
  }

  // False: the block is not from here, and nothing has happened.
  bool give_back(void* block) {
    // The thread that frees a block got it from the thread that took it, and so sees that thread's count.
    if (count_ == 0) return false;
    std::shared_ptr<AllocationSource> source;
    {
      const std::lock_guard lock(mutex_);
      const auto found = sources_.find(block);
      if (found == sources_.end()) return false;
      source = std::move(found->second);
      sources_.erase(found);
      count_ = sources_.size();
    }
    source->give_back(block);
    return true;
  }

 private:
  std::atomic<size_t> count_{0};  // of sources_: most calls find 0 and take no lock
  std::mutex mutex_;
  std::unordered_map<void*, std::shared_ptr<AllocationSource>> sources_;
};

}  // namespace vesta::runtime
