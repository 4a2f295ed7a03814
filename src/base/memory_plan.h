// Offsets of buffers in one arena. The planner calls it with the sizes' hints, the runtime again for other sizes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vesta {

struct BufferLifetime {
  int64_t bytes = 0;
  int first_step = 0;  // both inclusive
  int last_step = 0;
  bool in_arena = true;  // false: a tensor of its own, held beside the arena
};

inline constexpr int64_t kArenaAlignment = 64;
// Bytes: what kernels of a GPU may rely on in memory that is no input; they take so much at once.
inline constexpr int64_t kDeviceAlignment = 16;

// Gives every buffer an offset so that no two that live at the same step overlap, and returns the arena's size.
// Offsets and size are multiples of kArenaAlignment. Deterministic. Largest buffers are placed first, each at the
// lowest offset that fits.
int64_t assign_offsets(std::span<const BufferLifetime> buffers, std::vector<int64_t>& offsets);

// An arena of two blocks. What ends before step `early_end` lies in the early block, which is allocated by each call
// and given back before that step; the rest lies in the kept block, which stays for the next call.
struct ArenaLayout {
  std::vector<int64_t> offsets;  // per buffer, bytes into its block; -1: not in the arena
  int64_t kept_bytes = 0;
  int64_t early_bytes = 0;
  int early_end = 0;  // 0: there is no early block
  bool is_early(int last_step) const { return last_step < early_end; }
};

// One kept block, unless results so large are made late that what the earlier steps needed would raise the peak.
ArenaLayout lay_out_arena(std::span<const BufferLifetime> buffers);

}  // namespace vesta
