#include "runtime/cuda/allocation_log.h"

#include <limits>

#include "base/check.h"
#include "base/memory_plan.h"

namespace vesta::runtime {

BlockPlaces place_blocks(const std::vector<AllocationEvent>& events, const BlocksElsewhere& elsewhere) {
  std::vector<BufferLifetime> lives;
  for (size_t at = 0; at < events.size(); ++at) {
    const AllocationEvent& e = events[at];
    if (e.bytes == 0) {
      lives[static_cast<size_t>(e.block)].last_step = static_cast<int>(at);
      continue;
    }
    VESTA_CHECK(e.block == static_cast<int>(lives.size()), "block {} is allocated as number {}", e.block, lives.size());
    const int64_t bytes = elsewhere.contains(e.block) ? 1 : e.bytes;
    const int64_t rounded = (bytes + kTorchAlignment - 1) / kTorchAlignment * kTorchAlignment;
    lives.push_back({rounded, static_cast<int>(at), std::numeric_limits<int>::max(), true});
  }
  BlockPlaces out;
  out.bytes = assign_offsets(lives, out.offsets);
  return out;
}

void* AllocationLog::take(size_t bytes) {
  void* const block = allocate_(bytes);
  const std::lock_guard lock(mutex_);
  numbers_[block] = blocks_;
  events_.push_back({blocks_++, static_cast<int64_t>(bytes)});
  return block;
}

void AllocationLog::give_back(void* block) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const auto it = numbers_.find(block);
    if (it != numbers_.end()) {
      events_.push_back({it->second, 0});
      numbers_.erase(it);
    }
  }
  free_(block);
}

std::vector<AllocationEvent> AllocationLog::events() const {
  const std::lock_guard lock(mutex_);
  return events_;
}

std::vector<const void*> AllocationLog::held(int first) const {
  const std::lock_guard lock(mutex_);
  std::vector<const void*> out;
  for (const auto& [block, number] : numbers_)
    if (number >= first) out.push_back(block);
  return out;
}

int AllocationLog::blocks() const {
  const std::lock_guard lock(mutex_);
  return blocks_;
}

int AllocationLog::number_of(const void* block) const {
  const std::lock_guard lock(mutex_);
  const auto it = numbers_.find(block);
  return it == numbers_.end() ? -1 : it->second;
}

PlacedBlocks::PlacedBlocks(std::vector<AllocationEvent> events, BlockPlaces places, char* memory,
                           BlocksElsewhere elsewhere)
    : events_(std::move(events)), places_(std::move(places)), memory_(memory), elsewhere_(std::move(elsewhere)) {}

void* PlacedBlocks::take(size_t bytes) {
  const std::lock_guard lock(mutex_);
  const bool same = !differs_ && next_ < events_.size() && events_[next_].bytes == static_cast<int64_t>(bytes);
  differs_ = !same;
  VESTA_CHECK(same, "an operator allocates {} bytes, another size than in the capture before", bytes);
  const int number = events_[next_++].block;
  const auto given = elsewhere_.find(number);
  void* const block =
      given == elsewhere_.end() ? memory_ + places_.offsets[static_cast<size_t>(number)] : given->second;
  numbers_[block] = number;
  return block;
}

void PlacedBlocks::give_back(void* block) noexcept {
  const std::lock_guard lock(mutex_);
  const auto it = numbers_.find(block);
  if (it == numbers_.end()) return;
  if (next_ < events_.size()) {  // blocks that the log leaves alive may be freed at any time later
    differs_ |=
        events_[next_] != AllocationEvent{it->second, 0};  // freed too early, its place may belong to another block
    ++next_;
  }
  numbers_.erase(it);
}

bool PlacedBlocks::complete() const {
  const std::lock_guard lock(mutex_);
  return !differs_ && next_ == events_.size();
}

}  // namespace vesta::runtime
