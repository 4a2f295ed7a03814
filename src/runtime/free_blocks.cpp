#include "runtime/free_blocks.h"

#include <algorithm>
#include <iterator>

namespace vesta::runtime {

void* FreeBlocks::take(size_t n) {
  constexpr size_t kPage = size_t{4} << 10;
  const auto smallest = by_size_.lower_bound(n);
  if (smallest == by_size_.end() || smallest->first - n > n / 64 + kPage) return nullptr;
  // Equal sizes are in the order in which their blocks were freed.
  const List::iterator found = std::prev(by_size_.upper_bound(smallest->first))->second;
  void* const memory = found->memory;
  const size_t bytes = found->bytes;
  remove(found);
  use(bytes);
  return memory;
}

void FreeBlocks::note_new(size_t bytes) {
  if (const auto it = lately_dropped_.find(bytes); it != lately_dropped_.end()) {
    more_ += bytes;
    if (--it->second == 0) lately_dropped_.erase(it);
  }
  use(bytes);
}

void FreeBlocks::give_back(Block block) {
  in_use_ -= block.bytes;
  bytes_ += block.bytes;
  recent_bytes_ += block.bytes;
  recent_.push_front({block});
  by_size_.emplace(block.bytes, recent_.begin());
}

size_t FreeBlocks::most() const {
  const size_t peak = std::max(peak_, peak_before_);
  return kKept + std::min(more_, peak - in_use_);
}

std::vector<void*> FreeBlocks::drop() {
  std::vector<void*> out;
  while (bytes_ > most()) {
    List& from = spare_.empty() ? recent_ : spare_;
    const List::iterator oldest = std::prev(from.end());
    out.push_back(oldest->memory);
    ++lately_dropped_[oldest->bytes];
    remove(oldest);
  }
  return out;
}

std::vector<FreeBlocks::Block> FreeBlocks::spare() {
  std::vector<Block> out;
  while (recent_bytes_ > kKept) {
    const List::iterator oldest = std::prev(recent_.end());
    oldest->is_spare = true;
    recent_bytes_ -= oldest->bytes;
    out.push_back(*oldest);
    spare_.splice(spare_.begin(), recent_, oldest);
  }
  return out;
}

std::vector<void*> FreeBlocks::drop_all() {
  std::vector<void*> out;
  for (List* const list : {&recent_, &spare_})
    while (!list->empty()) {
      out.push_back(list->back().memory);
      remove(std::prev(list->end()));
    }
  more_ = least_ = 0;
  return out;
}

void FreeBlocks::use(size_t bytes) {
  in_use_ += bytes;
  peak_ = std::max(peak_, in_use_);
  least_ = std::min(least_, bytes_);
  if (++allocations_ == kPeriod) end_period();
}

void FreeBlocks::end_period() {
  more_ -= std::min(more_, least_);
  least_ = bytes_;
  peak_before_ = peak_;
  peak_ = in_use_;
  lately_dropped_.clear();
  allocations_ = 0;
}

void FreeBlocks::remove(List::iterator block) {
  const auto [first, last] = by_size_.equal_range(block->bytes);
  by_size_.erase(std::find_if(first, last, [&](const auto& entry) { return entry.second == block; }));
  bytes_ -= block->bytes;
  if (!block->is_spare) recent_bytes_ -= block->bytes;
  (block->is_spare ? spare_ : recent_).erase(block);
}

}  // namespace vesta::runtime
