#include "schedule/vectors.h"

#include <algorithm>
#include <bit>

namespace vesta::schedule {

using loops::Ahead;
using loops::Instr;
using loops::InstrKind;
using loops::Kernel;
using loops::kNoRef;
using loops::Range;
using loops::RangeKind;
using loops::Ref;
using loops::Tile;

namespace {

// Elements of the types that most of the work uses fill one vector. A wider type then takes several registers.
int64_t choose_lanes(const Kernel& k, int64_t vector_bytes) {
  const loops::Range& range = k.ranges[static_cast<size_t>(k.vector)];
  int wide = 0, word = 0, narrow = 0, bytes = 0;
  bool plain = true;  // no index or condition needs more than a byte per lane
  for (const Instr& i : k.instrs) {
    plain &= i.kind == InstrKind::Load || i.kind == InstrKind::Store || i.kind == InstrKind::Compute ||
             i.kind == InstrKind::Constant || i.kind == InstrKind::Cast;
    bool counts = i.kind == InstrKind::Load || i.kind == InstrKind::Store || i.kind == InstrKind::Compute ||
                  i.kind == InstrKind::Cast || i.kind == InstrKind::Accumulate || i.kind == InstrKind::Scan;
    if (!counts || i.dtype == DType::Bool) continue;
    int64_t size = element_size(opmath(i.dtype));
    ++(size == 8 ? wide : size == 4 ? word : size == 2 ? narrow : bytes);
  }
  int64_t width = wide > word + narrow + bytes ? 8 : wide + word > 0 ? 4 : narrow > 0 ? 2 : plain ? 1 : 4;
  int64_t lanes = vector_bytes / width;
  while (width == 1 && 4 * lanes > vector_bytes && k.block.constant() % lanes != 0) lanes /= 2;
  // A row shorter than a vector gets a shorter vector.
  if (range.extent.is_constant()) {
    while (lanes > 1 && lanes / 2 >= range.extent.constant()) lanes /= 2;
  }
  if (range.kind == RangeKind::Parallel) {
    while (lanes > 1 && k.block.constant() % lanes != 0) lanes /= 2;
  }
  return lanes;
}

int64_t tile_side(Expr extent, int64_t lanes, int64_t most) {
  if (!extent.is_constant()) return 0;
  for (int64_t side = most; side >= lanes; side /= 2) {
    if (extent.constant() % side == 0) return side;
  }
  return 0;
}

// Whether the index is read from memory. Then it may depend on any range.
bool gathers(Expr index) {
  const std::vector<Expr> symbols = symbols_of(index);
  return std::any_of(symbols.begin(), symbols.end(),
                     [](Expr e) { return e.node()->symbol_kind == SymbolKind::Indirect; });
}

// Choices along the lanes of one kernel.
class Vectors {
 public:
  explicit Vectors(Kernel& k) : k_(k), range_(k.ranges[static_cast<size_t>(k.vector)]), lane_(range_.var) {
    differs_.assign(k.instrs.size(), false);
    for (const loops::Stage& stage : k.stages) {
      for (Ref r : stage.body) differs_[r] = differs(k.instrs[r]);
    }
    for (const Range& r : k.ranges) inner_ranges_ += r.kind == RangeKind::Inner;
  }

  void run() {
    if (range_.kind == RangeKind::Inner) {
      next_row();
    } else {
      tile();
    }
  }

 private:
  bool is_vector(Expr e) const {
    for (Expr s : symbols_of(e)) {
      if (s == lane_) return true;
      if (s.node()->symbol_kind != SymbolKind::Indirect) continue;
      for (Ref r = 0; r < k_.instrs.size(); ++r) {
        if (k_.instrs[r].kind == InstrKind::Indirect && k_.instrs[r].index == s && differs_[r]) return true;
      }
    }
    return false;
  }

  // Whether the value differs from lane to lane.
  bool differs(const Instr& i) const {
    switch (i.kind) {
      case InstrKind::Result: return range_.kind == RangeKind::Parallel;
      case InstrKind::RowLoad:
      case InstrKind::Scan: return true;
      case InstrKind::Index:
      case InstrKind::Load:
        if (is_vector(i.index)) return true;
        break;
      default: break;
    }
    return std::any_of(i.in.begin(), i.in.end(), [&](Ref o) { return o != kNoRef && differs_[o]; });
  }

  bool is_run(Expr index) const {
    const auto along_lanes = coefficient_of(index, lane_);
    return along_lanes && along_lanes->is_constant(1) && !is_vector(index - lane_);
  }

  // Whether the load reads neighbours, of another row for another `row`, at indices that can be computed ahead.
  bool takes_neighbours(Ref r, Expr row) const {
    const Instr& i = k_.instrs[r];
    if (i.kind != InstrKind::Load || i.in[0] != kNoRef || !differs_[r] || k_.lanes == 1) return false;
    const auto along_rows = coefficient_of(i.index, row);
    return !gathers(i.index) && is_run(i.index) && along_rows && !along_rows->is_constant(0);
  }

  // Loads that are contiguous along the variable next to the lanes are read in squares.
  void tile() {
    if (inner_ranges_ > 0 || k_.serial || k_.vector < 1 || k_.lanes < 4 || k_.lanes > 16) return;
    const Range& rows = k_.ranges[static_cast<size_t>(k_.vector) - 1];
    if (!provably_at_least(k_.block, range_.extent)) return;
    Tile t;
    t.row = rows.var;
    int64_t bytes = 1;
    for (Ref r = 0; r < k_.instrs.size(); ++r) {
      const Instr& i = k_.instrs[r];
      if (i.kind != InstrKind::Load || i.in[0] != kNoRef || !differs_[r]) continue;
      const loops::KernelBuffer& b = k_.buffers[static_cast<size_t>(i.buffer)];
      if (b.written || !b.noalias) continue;
      auto along_lanes = coefficient_of(i.index, lane_), along_rows = coefficient_of(i.index, t.row);
      if (!along_lanes || !along_rows || !along_rows->is_constant(1)) continue;
      if (along_lanes->is_constant(1) || along_lanes->is_constant(-1)) continue;
      if (is_vector(*along_lanes) || is_vector(i.index - *along_lanes * lane_)) continue;
      if (gathers(i.index)) continue;
      t.loads.push_back(r);
      bytes = std::max(bytes, element_size(i.dtype));
    }
    if (t.loads.empty()) return;
    // A square has a few cache lines along the rows. Along the lanes it has what fits well into the second-level cache,
    // so that all other accesses are long runs.
    t.rows = tile_side(rows.extent, k_.lanes, 512 / bytes);
    t.columns = tile_side(range_.extent, k_.lanes, 1024 / bytes / static_cast<int64_t>(std::bit_ceil(t.loads.size())));
    if (t.rows == 0 || t.columns == 0) return;
    t.pitch = t.columns + 64 / bytes;  // not a power of two, otherwise all rows share a cache set
    k_.tile = std::move(t);
    // Accesses along the lanes are too short for the hardware to prefetch them.
    k_.ahead.row = rows.var;
    k_.ahead.rows = 4;
    for (Ref r = 0; r < k_.instrs.size(); ++r) {
      if (takes_neighbours(r, rows.var)) k_.ahead.loads.push_back(r);
    }
  }

  // Prefetches the next row if it fits beside the current one in the first-level cache and is too long for the hardware
  // to have prefetched. The last loop does it: it finds its own row in the cache and leaves the memory idle.
  void next_row() {
    constexpr int64_t kAtLeast = 1 << 10, kAtMost = 16 << 10;  // bytes
    if (inner_ranges_ != 1 || k_.vector < 1) return;
    Ahead ahead;
    ahead.row = k_.ranges[static_cast<size_t>(k_.vector) - 1].var;
    ahead.rows = 1;
    const int64_t elements = upper_bound(range_.extent).value_or(0);
    const auto last = std::find_if(k_.stages.rbegin(), k_.stages.rend(), [](const loops::Stage& g) { return g.loop; });
    if (last == k_.stages.rend()) return;
    for (auto stage = k_.stages.begin(); stage + 1 != last.base(); ++stage) {
      for (Ref r : stage->body) {
        if (!stage->loop || !takes_neighbours(r, ahead.row)) continue;
        const Instr& i = k_.instrs[r];
        const int64_t bytes = elements * element_size(i.dtype);
        const bool known = std::any_of(ahead.loads.begin(), ahead.loads.end(), [&](Ref o) {
          return k_.instrs[o].buffer == i.buffer && k_.instrs[o].index == i.index;
        });
        if (!known && bytes >= kAtLeast && bytes <= kAtMost) ahead.loads.push_back(r);
      }
    }
    k_.ahead = std::move(ahead);
  }

  Kernel& k_;
  const Range& range_;
  const Expr lane_;
  size_t inner_ranges_ = 0;
  std::vector<char> differs_;
};

}  // namespace

void choose_vectors(Kernel& kernel, int64_t vector_bytes) {
  if (kernel.vector < 0) return;
  kernel.lanes = choose_lanes(kernel, vector_bytes);
  if (kernel.lanes > 1) Vectors(kernel).run();
}

void stream_results(Staged& staged, const loops::Dag& dag) {
  constexpr int64_t alignment = 64;
  Kernel& k = *staged.kernel;
  for (const loops::DagBuffer& from : dag.buffers()) {
    auto it = std::find(staged.buffers.begin(), staged.buffers.end(), from.id);
    if (it == staged.buffers.end() || !from.written || from.alignment < alignment) continue;
    const auto b = it - staged.buffers.begin();
    const bool read = std::any_of(k.instrs.begin(), k.instrs.end(),
                                  [&](const Instr& i) { return i.buffer == b && i.kind != InstrKind::Store; });
    const Expr start = staged.offsets[static_cast<size_t>(b)] * element_size(from.dtype);
    k.buffers[static_cast<size_t>(b)].stream = !read && provably_divisible(start, alignment);
  }
}

}  // namespace vesta::schedule
