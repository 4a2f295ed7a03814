// Divisors of extents, for sizes of blocks and chunks.
#pragma once

#include <algorithm>
#include <cstdint>

namespace vesta::schedule {

// The largest divisor of n >= 1 that is at most `most`; 1 if there is no other.
inline int64_t largest_divisor(int64_t n, int64_t most) {
  for (int64_t c = std::min(n, most); c > 1; --c)
    if (n % c == 0) return c;
  return 1;
}

}  // namespace vesta::schedule
