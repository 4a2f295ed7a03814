// Memory of the extern calls in a CUDA graph. A first capture, which is discarded, logs their allocations. The blocks
// are then laid out in one piece of memory by their lifetimes, and a second capture is served from there.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/cuda/torch_cuda.h"

namespace vesta::runtime {

inline constexpr int64_t kTorchAlignment = 512;  // in bytes, of blocks of PyTorch's CUDA allocator

struct AllocationEvent {
  int block = 0;      // numbered from 0 in the order of allocation
  int64_t bytes = 0;  // as requested; 0: the block is freed
  bool operator==(const AllocationEvent&) const = default;
};

// The offset of each block. A block that no event frees lives on.
struct BlockPlaces {
  std::vector<int64_t> offsets;  // by block, multiples of kTorchAlignment
  int64_t bytes = 0;             // total
};
// `elsewhere`: addresses of blocks that lie in other memory.
using BlocksElsewhere = std::unordered_map<int, void*>;
BlockPlaces place_blocks(const std::vector<AllocationEvent>& events, const BlocksElsewhere& elsewhere = {});

// Forwards allocations and logs them.
class AllocationLog final : public AllocationSource {
 public:
  // `allocate` may throw. `free` takes what `allocate` returned.
  AllocationLog(std::function<void*(size_t)> allocate, std::function<void(void*)> free)
      : allocate_(std::move(allocate)), free_(std::move(free)) {}
  void* take(size_t bytes) override;
  void give_back(void* block) noexcept override;

  std::vector<AllocationEvent> events() const;
  // Blocks from number `first` on that have not been freed.
  std::vector<const void*> held(int first) const;
  int blocks() const;
  int number_of(const void* block) const;  // -1: it is not known

 private:
  const std::function<void*(size_t)> allocate_;
  const std::function<void(void*)> free_;
  mutable std::mutex mutex_;  // a library may free a block on another thread
  std::vector<AllocationEvent> events_;
  std::unordered_map<const void*, int> numbers_;
  int blocks_ = 0;
};

// Serves the logged allocations again, each block at its offset.
class PlacedBlocks final : public AllocationSource {
 public:
  PlacedBlocks(std::vector<AllocationEvent> events, BlockPlaces places, char* memory, BlocksElsewhere elsewhere = {});
  // Throws InternalError for a request that the log does not have.
  void* take(size_t bytes) override;
  void give_back(void* block) noexcept override;
  // Whether every event of the log has happened.
  bool complete() const;

 private:
  const std::vector<AllocationEvent> events_;
  const BlockPlaces places_;
  char* const memory_;
  const BlocksElsewhere elsewhere_;
  mutable std::mutex mutex_;
  std::unordered_map<const void*, int> numbers_;  // of blocks that have not been freed
  size_t next_ = 0;                               // the next event of the log
  bool differs_ = false;
};

}  // namespace vesta::runtime
