#include "base/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace vesta {

namespace {
int64_t aligned(int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }
}  // namespace

int64_t assign_offsets(std::span<const BufferLifetime> buffers, std::vector<int64_t>& offsets) {
  offsets.assign(buffers.size(), 0);
  std::vector<int> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return buffers[a].bytes > buffers[b].bytes; });

  int64_t total = 0;
  std::vector<int> placed;  // by offset
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

}  // namespace vesta
