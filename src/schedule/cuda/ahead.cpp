#include "schedule/cuda/ahead.h"

#include <algorithm>

#include "loops/ahead.h"

namespace vesta::schedule {
namespace {

constexpr int64_t kLeast = 1 << 10;  // bytes of a row that are worth an instruction
constexpr int64_t kMost = 8 << 10;   // the rows of all blocks at once stay in the second cache

}  // namespace

void fetch_ahead(loops::Kernel& kernel, const std::vector<bool>& weights) {
  const loops::Range& row = kernel.ranges.back();
  loops::Ahead ahead;
  ahead.row = row.var;
  ahead.rows = row.extent.is_constant() ? row.extent.constant() : 0;
  for (loops::Ref r : loops::rows_to_fetch(kernel)) {
    const loops::Instr& i = kernel.instrs[r];
    if (!weights[static_cast<size_t>(i.buffer)] || ahead.rows * element_size(i.dtype) < kLeast) continue;
    ahead.rows = std::min(ahead.rows, kMost / element_size(i.dtype));
    ahead.loads.push_back(r);
  }
  if (!ahead.loads.empty()) kernel.ahead = std::move(ahead);
}

}  // namespace vesta::schedule
