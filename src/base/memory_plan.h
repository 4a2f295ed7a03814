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
};

inline constexpr int64_t kArenaAlignment = 64;

// Gives every buffer an offset so that no two that live at the same step overlap, and returns the arena's size.
// Offsets and size are multiples of kArenaAlignment. Deterministic. Largest buffers are placed first, each at the
// lowest offset that fits.
int64_t assign_offsets(std::span<const BufferLifetime> buffers, std::vector<int64_t>& offsets);

}  // namespace vesta
