#include "base/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace vesta {

namespace {
int64_t aligned(int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

// An early block costs each call an allocation, so it must save at least this many bytes.
constexpr int64_t kWorthAnEarlyBlock = int64_t{256} << 10;

// Assigns offsets to the buffers for which `wanted` is true and leaves the others unchanged. Returns the block's size.
template <class Wanted>
int64_t fill_block(std::span<const BufferLifetime> buffers, std::vector<int64_t>& offsets, Wanted wanted) {
  std::vector<BufferLifetime> chosen;
  std::vector<size_t> which;
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (!buffers[b].in_arena || !wanted(buffers[b])) continue;
    chosen.push_back(buffers[b]);
    which.push_back(b);
  }
  std::vector<int64_t> at;
  const int64_t bytes = assign_offsets(chosen, at);
  for (size_t i = 0; i < which.size(); ++i) offsets[which[i]] = at[i];
  return bytes;
}

ArenaLayout with_early_end(std::span<const BufferLifetime> buffers, int step) {
  ArenaLayout a;
  a.offsets.assign(buffers.size(), -1);
  a.early_end = step;
  a.early_bytes = fill_block(buffers, a.offsets, [&](const BufferLifetime& b) { return a.is_early(b.last_step); });
  a.kept_bytes = fill_block(buffers, a.offsets, [&](const BufferLifetime& b) { return !a.is_early(b.last_step); });
  return a;
}
}  // namespace

int64_t assign_offsets(std::span<const BufferLifetime> buffers, std::vector<int64_t>& offsets) {
  offsets.assign(buffers.size(), 0);
  std::vector<int> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return buffers[a].bytes > buffers[b].bytes; });

  int64_t total = 0;
  std::vector<int> placed;  // sorted by offset
  for (int b : order) {
    const int64_t bytes = aligned(buffers[b].bytes);
    if (bytes == 0) continue;
    int64_t at = 0;
    for (int p : placed) {
      if (buffers[p].last_step < buffers[b].first_step || buffers[p].first_step > buffers[b].last_step) continue;
      if (offsets[p] >= at + bytes) break;  // the gap before p is wide enough
      at = std::max(at, offsets[p] + aligned(buffers[p].bytes));
    }
    offsets[b] = at;
    total = std::max(total, at + bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), at, [&](int64_t v, int p) { return v < offsets[p]; }),
                  b);
  }
  return total;
}

ArenaLayout lay_out_arena(std::span<const BufferLifetime> buffers) {
  ArenaLayout one = with_early_end(buffers, 0);
  if (one.kept_bytes < kWorthAnEarlyBlock) return one;

  // Bytes of the buffers outside the arena, by step.
  int steps = 0;
  for (const BufferLifetime& b : buffers) steps = std::max(steps, b.last_step + 1);
  std::vector<int64_t> beside(static_cast<size_t>(steps) + 1, 0);
  for (const BufferLifetime& b : buffers) {
    if (b.in_arena || b.first_step < 0) continue;
    beside[static_cast<size_t>(b.first_step)] += b.bytes;
    beside[static_cast<size_t>(b.last_step) + 1] -= b.bytes;
  }
  std::partial_sum(beside.begin(), beside.end(), beside.begin());
  const auto peak = std::max_element(beside.begin(), beside.end());
  if (peak == beside.begin()) return one;

  ArenaLayout two = with_early_end(buffers, static_cast<int>(peak - beside.begin()));
  const int64_t before = two.early_bytes + *std::max_element(beside.begin(), peak);
  const int64_t with_two = two.kept_bytes + std::max(before, *peak);
  return one.kept_bytes + *peak - with_two >= kWorthAnEarlyBlock ? two : one;
}

}  // namespace vesta
