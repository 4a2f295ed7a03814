#include "base/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace vesta {

namespace {
int64_t aligned(int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

// An early block costs each call an allocation, so it must save at least this many bytes, divided by the number of
// allocations that the call makes anyway.
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

// Bytes that the buffers take, by step. The last entry, after all steps, is 0.
template <class Wanted>
std::vector<int64_t> bytes_by_step(std::span<const BufferLifetime> buffers, int steps, Wanted wanted) {
  std::vector<int64_t> bytes(static_cast<size_t>(steps) + 1, 0);
  for (const BufferLifetime& b : buffers) {
    if (b.first_step < 0 || !wanted(b)) continue;
    bytes[static_cast<size_t>(b.first_step)] += b.bytes;
    bytes[static_cast<size_t>(b.last_step) + 1] -= b.bytes;
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  return bytes;
}

// Returns the early_end with the lowest peak. Estimates the size of a block as the most bytes that are alive at one
// step. A buffer of the kept block that is alive before early_end is alive at early_end, too.
int best_early_end(const std::vector<int64_t>& in_arena, const std::vector<int64_t>& beside) {
  std::vector<int64_t> kept = in_arena, late = beside;  // the most from each step on
  for (size_t s = kept.size() - 1; s-- > 0;) {
    kept[s] = std::max(kept[s], kept[s + 1]);
    late[s] = std::max(late[s], late[s + 1]);
  }
  int best = 0;
  int64_t least = kept[0] + late[0], early = 0, before = 0;
  for (size_t s = 1; s + 1 < kept.size(); ++s) {
    early = std::max(early, in_arena[s - 1]);
    before = std::max(before, beside[s - 1]);
    const int64_t peak = kept[s] + std::max(early + before, late[s]);
    if (peak >= least) continue;
    least = peak;
    best = static_cast<int>(s);
  }
  return best;
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
  if (one.kept_bytes == 0) return one;
  int steps = 0;
  int64_t allocations = 0;
  for (const BufferLifetime& b : buffers) {
    steps = std::max(steps, b.last_step + 1);
    allocations += !b.in_arena && b.bytes > 0;
  }
  const int64_t worth = kWorthAnEarlyBlock / std::max(allocations, int64_t{1});
  if (one.kept_bytes < worth) return one;

  const auto in_arena = bytes_by_step(buffers, steps, [](const BufferLifetime& b) { return b.in_arena; });
  const auto beside = bytes_by_step(buffers, steps, [](const BufferLifetime& b) { return !b.in_arena; });
  const int end = best_early_end(in_arena, beside);
  if (end == 0) return one;
  ArenaLayout two = with_early_end(buffers, end);
  const auto late = beside.begin() + end;
  const int64_t before = two.early_bytes + *std::max_element(beside.begin(), late);
  const int64_t with_two = two.kept_bytes + std::max(before, *std::max_element(late, beside.end()));
  const int64_t with_one = one.kept_bytes + *std::max_element(beside.begin(), beside.end());
  return with_one - with_two >= worth ? two : one;
}

}  // namespace vesta
