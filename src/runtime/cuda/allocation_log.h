// Memory of the extern calls in a CUDA graph. A first capture, which is thrown away, notes what they allocate and free;
// the blocks are given places in one piece of memory by when they live; a second capture is served from there.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/cuda/torch_cuda.h"

namespace vesta::runtime {

inline constexpr int64_t kTorchAlignment = 512;  // bytes, of the blocks of PyTorch's CUDA allocator

struct AllocationEvent {
  int block = 0;      // counted from 0 by allocation
  int64_t bytes = 0;  // asked for; 0: the block is freed
  bool operator==(const AllocationEvent&) const = default;
};

// Where each block lies. A block that no event frees lives on.
struct BlockPlaces {
  std::vector<int64_t> offsets;  // by block, multiples of kTorchAlignment
  int64_t bytes = 0;             // in all
};
BlockPlaces place_blocks(const std::vector<AllocationEvent>& events);

// Passes allocations on and notes them.
class AllocationLog final : public AllocationSource {
 public:
  // `allocate` may throw; `free` takes what it returned.
  AllocationLog(std::function<void*(size_t)> allocate, std::function<void(void*)> free)
      : allocate_(std::move(allocate)), free_(std::move(free)) {}
  void* take(size_t bytes) override;
  void give_back(void* block) noexcept override;

  std::vector<AllocationEvent> events() const;
  // Blocks from number `first` on that are not given back.
  std::vector<const void*> held(int first) const;
  int blocks() const;

 private:
  const std::function<void*(size_t)> allocate_;
  const std::function<void(void*)> free_;
  mutable std::mutex mutex_;  // a library may let a block go on another thread
  std::vector<AllocationEvent> events_;
  std::unordered_map<const void*, int> numbers_;
  int blocks_ = 0;
};

// Serves the same allocations again, each block in its place.
class PlacedBlocks final : public AllocationSource {
 public:
  PlacedBlocks(std::vector<AllocationEvent> events, BlockPlaces places, char* memory);
  // Throws InternalError where something else is asked for than the log has.
  void* take(size_t bytes) override;
  void give_back(void* block) noexcept override;
  // Whether the log was followed to its end.
  bool complete() const;

 private:
  const std::vector<AllocationEvent> events_;
  const BlockPlaces places_;
  char* const memory_;
  mutable std::mutex mutex_;
  std::unordered_map<const void*, int> numbers_;  // of blocks that are not given back
  size_t next_ = 0;                               // event
  bool differs_ = false;
};

}  // namespace vesta::runtime
