// Offsets of buffers in one arena. The planner runs this on the hints of the sizes, the runtime again on other sizes.
// Equal input gives equal offsets.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vesta {

struct BufferLifetime {
  int64_t bytes = 0;
  int first_step = 0;  // both inclusive
  int last_step = 0;
  bool in_arena = true;  // false: a tensor of its own, outside the arena
};

inline constexpr int64_t kArenaAlignment = 64;
// The alignment in bytes that kernels of a GPU may assume of memory that is no input: the largest access they make.
inline constexpr int64_t kDeviceAlignment = 16;

// Gives every buffer an offset such that buffers that live at the same step never overlap, and returns the arena's
// size. Offsets and size are multiples of kArenaAlignment. The largest buffers are placed first, each at the lowest
// offset that fits.
int64_t assign_offsets(std::span<const BufferLifetime> buffers, std::vector<int64_t>& offsets);

// An arena of two blocks. Buffers that end before step `early_end` lie in the early block, which each call allocates
// and releases before that step. All others lie in the kept block, which stays for the next call. The halves of a
// training step allocate it in each call instead, on a CPU before the first step that uses it, unless it is large.
struct ArenaLayout {
  std::vector<int64_t> offsets;  // per buffer, bytes into its block; -1: not in the arena
  int64_t kept_bytes = 0;
  int64_t early_bytes = 0;
  int early_end = 0;  // 0: there is no early block
  bool is_early(int last_step) const { return last_step < early_end; }
};

// Makes one kept block, unless late results are so large that keeping the memory of earlier steps would raise the peak.
ArenaLayout lay_out_arena(std::span<const BufferLifetime> buffers);

}  // namespace vesta
