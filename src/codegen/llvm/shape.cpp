#include "codegen/llvm/shape.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace vesta::codegen {

using loops::Instr;
using loops::InstrKind;
using loops::Kernel;
using loops::kNoRef;
using loops::RangeKind;
using loops::Ref;

namespace {

// Elements of the types that most of the work is done in fill one vector; a wider type then takes several registers.
int choose_lanes(const Kernel& k, int64_t vector_bytes, Expr extent) {
  int wide = 0, word = 0, narrow = 0, bytes = 0;
  bool plain = true;  // no index or condition that needs more than a byte a lane
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
  while (width == 1 && 4 * lanes > vector_bytes && k.block % lanes != 0) lanes /= 2;
  // A row shorter than a vector takes a shorter vector.
  if (extent.is_constant()) {
    while (lanes > 1 && lanes / 2 >= extent.constant()) lanes /= 2;
  }
  return static_cast<int>(lanes);
}

int64_t tile_side(Expr extent, int64_t lanes, int64_t most) {
  if (!extent.is_constant()) return 0;
  for (int64_t side = most; side >= lanes; side /= 2) {
    if (extent.constant() % side == 0) return side;
  }
  return 0;
}

// Whether a place is read from memory itself: it may depend on any range.
bool gathers(Expr index) {
  const std::vector<Expr> symbols = symbols_of(index);
  return std::any_of(symbols.begin(), symbols.end(),
                     [](Expr e) { return e.node()->symbol_kind == SymbolKind::Indirect; });
}

// Whether the load takes neighbours, of another row for another `row`, at places that can be computed ahead.
bool takes_neighbours(const Shape& s, Ref r, Expr row) {
  const Instr& i = s.kernel.instrs[r];
  if (i.kind != InstrKind::Load || i.in[0] != kNoRef || !s.vector[r]) return false;
  const auto along_rows = coefficient_of(i.index, row);
  return !gathers(i.index) && s.is_run(i.index) && along_rows && !along_rows->is_constant(0);
}

// The variable must be the one next to the lanes, so that neighbouring work items are neighbours along it.
void find_tile(Shape& s) {
  const Kernel& k = s.kernel;
  if (s.family != Family::Columns || !s.loops.empty() || k.serial || k.vector < 1 || s.lanes < 4 || s.lanes > 16)
    return;
  const loops::Range& columns = k.ranges[static_cast<size_t>(k.vector)];
  const loops::Range& rows = k.ranges[static_cast<size_t>(k.vector) - 1];
  if (!provably_at_least(k.block, columns.extent)) return;
  Tile t;
  t.row = rows.var;
  int64_t bytes = 1;
  for (Ref r = 0; r < k.instrs.size(); ++r) {
    const Instr& i = k.instrs[r];
    if (i.kind != InstrKind::Load || i.in[0] != kNoRef || s.ordered[r] || !s.vector[r]) continue;
    auto along_lanes = coefficient_of(i.index, s.lane), along_rows = coefficient_of(i.index, t.row);
    if (!along_lanes || !along_rows || !along_rows->is_constant(1)) continue;
    if (along_lanes->is_constant(1) || along_lanes->is_constant(-1)) continue;
    if (s.is_vector(*along_lanes) || s.is_vector(i.index - *along_lanes * s.lane)) continue;
    if (gathers(i.index)) continue;
    t.loads.push_back(r);
    bytes = std::max(bytes, element_size(i.dtype));
  }
  if (t.loads.empty()) return;
  // A few cache lines along the rows at a time; along the lanes what fits well into the second cache, so that
  // everything else is read and written in long runs.
  t.rows = tile_side(rows.extent, s.lanes, 512 / bytes);
  t.columns = tile_side(columns.extent, s.lanes, 1024 / bytes / static_cast<int64_t>(std::bit_ceil(t.loads.size())));
  if (t.rows == 0 || t.columns == 0) return;
  t.pitch = t.columns + 64 / bytes;
  s.tile = std::move(t);
  s.ahead.row = rows.var;
  s.ahead.rows = 4;
  for (Ref r = 0; r < k.instrs.size(); ++r) {
    if (takes_neighbours(s, r, rows.var)) s.ahead.loads.push_back(r);
  }
}

// Rows that a next one fits beside in the first cache, and that are too long for the hardware to have fetched ahead.
constexpr int64_t kNextRowAtLeast = 1 << 10, kNextRowAtMost = 16 << 10;  // bytes

void find_next_row(Shape& s) {
  const Kernel& k = s.kernel;
  if (s.family != Family::Rows || s.loops.size() != 1 || k.vector < 1) return;
  s.ahead.row = k.ranges[static_cast<size_t>(k.vector) - 1].var;
  s.ahead.rows = 1;
  const int64_t elements = upper_bound(s.loops[0].extent).value_or(0);
  const auto last = std::find_if(k.stages.rbegin(), k.stages.rend(), [](const loops::Stage& g) { return g.loop; });
  if (last == k.stages.rend()) return;
  for (auto stage = k.stages.begin(); stage + 1 != last.base(); ++stage) {
    for (Ref r : stage->body) {
      if (!stage->loop || !takes_neighbours(s, r, s.ahead.row)) continue;
      const Instr& i = k.instrs[r];
      const int64_t bytes = elements * element_size(i.dtype);
      const bool known = std::any_of(s.ahead.loads.begin(), s.ahead.loads.end(), [&](Ref o) {
        return k.instrs[o].buffer == i.buffer && k.instrs[o].index == i.index;
      });
      if (!known && bytes >= kNextRowAtLeast && bytes <= kNextRowAtMost) s.ahead.loads.push_back(r);
    }
  }
}

// Instructions that a stage saves on two vectors when they are the even and the odd elements of a run; nullopt: there
// is something in it that needs its elements in sequence.
std::optional<int> saved_by_pairs(const Shape& s, const loops::Stage& stage) {
  int saved = 0;
  auto moves = [&](DType t, bool loads) {
    saved += t == DType::BF16 ? (loads ? 2 : 4) : element_size(t) <= 4 ? -2 : -4;
  };
  for (Ref r : stage.body) {
    const Instr& i = s.kernel.instrs[r];
    const bool turned = std::find(s.tile.loads.begin(), s.tile.loads.end(), r) != s.tile.loads.end();
    switch (i.kind) {
      case InstrKind::Load:
        if (!s.vector[r]) break;
        if (s.ordered[r] || i.in[0] != kNoRef || !(turned || s.is_run(i.index))) return std::nullopt;
        moves(i.dtype, true);
        break;
      case InstrKind::Store:
        if (i.in[1] != kNoRef || !s.is_run(i.index)) return std::nullopt;
        moves(i.dtype, false);
        break;
      case InstrKind::RowLoad: moves(i.dtype, true); break;
      case InstrKind::RowStore: moves(i.dtype, false); break;
      case InstrKind::StoreAdd:
      case InstrKind::Scan:
      case InstrKind::Indirect: return std::nullopt;
      default: break;
    }
  }
  return saved;
}

// A column program's values cross its stages, so that all of them take one order.
void find_pairs(Shape& s) {
  s.pairs.assign(s.kernel.stages.size(), false);
  if (s.family == Family::Scalar || s.lanes < 2) return;
  int all = 0;
  for (size_t n = 0; n < s.kernel.stages.size(); ++n) {
    const loops::Stage& stage = s.kernel.stages[n];
    if (s.family == Family::Rows && !stage.loop) continue;
    const std::optional<int> saved = saved_by_pairs(s, stage);
    if (s.family == Family::Rows) {
      s.pairs[n] = saved.value_or(0) > 0;
    } else if (!saved) {
      return;
    } else {
      all += *saved;
    }
  }
  if (s.family == Family::Columns) s.pairs.assign(s.pairs.size(), all > 0);
}

}  // namespace

bool Shape::is_run(Expr index) const {
  const auto along_lanes = coefficient_of(index, lane);
  return along_lanes && along_lanes->is_constant(1) && !is_vector(index - lane);
}

bool Shape::is_reversed_run(Expr index) const {
  const auto along_lanes = coefficient_of(index, lane);
  return along_lanes && along_lanes->is_constant(-1) && !is_vector(index + lane);
}

Ref Shape::binder(Expr indirect) const {
  for (Ref r = 0; r < kernel.instrs.size(); ++r) {
    if (kernel.instrs[r].kind == InstrKind::Indirect && kernel.instrs[r].index == indirect) return r;
  }
  VESTA_CHECK(false, "indirect symbol {} is not bound", to_string(indirect));
}

int Shape::level_of(Expr e) const {
  int result = 0;
  for (Expr s : symbols_of(e)) {
    int l = 0;
    if (s.node()->symbol_kind == SymbolKind::Indirect) {
      l = level[binder(s)];
    } else if (s.node()->symbol_kind == SymbolKind::Loop) {
      l = 2;
      if (family == Family::Columns && s == lane) l = 4;
      for (size_t i = 0; i < loops.size(); ++i) {
        if (loops[i].var == s) l = outside + 2 * (static_cast<int>(i) + 1);
      }
    }
    result = std::max(result, l);
  }
  return result;
}

bool Shape::is_vector(Expr e) const {
  for (Expr s : symbols_of(e)) {
    if (family != Family::Scalar && s == lane) return true;
    if (s.node()->symbol_kind == SymbolKind::Indirect && vector[binder(s)]) return true;
  }
  return false;
}

int Shape::weight(const loops::Stage& s) const {
  int own = s.loop ? innermost : outside;
  int w = 0;
  for (Ref r : s.body) {
    const Instr& i = kernel.instrs[r];
    if (level[r] < own && i.kind != InstrKind::Store && i.kind != InstrKind::Accumulate) continue;
    switch (i.kind) {
      case InstrKind::Compute: w += cost(i.prim); break;
      case InstrKind::Load:
      case InstrKind::Store: w += i.dtype == DType::BF16 ? 3 : 1; break;
      case InstrKind::StoreAdd: w += 10; break;
      case InstrKind::Accumulate: w += i.reduce == ReduceOp::ArgMax || i.reduce == ReduceOp::ArgMin ? 10 : 1; break;
      case InstrKind::Scan: w += 10; break;
      default: w += 1; break;
    }
  }
  return w;
}

Shape analyse(Kernel kernel, int64_t vector_bytes) {
  Shape s;
  if (kernel.vector >= 0) {
    const loops::Range& range = kernel.ranges[static_cast<size_t>(kernel.vector)];
    s.family = range.kind == RangeKind::Parallel ? Family::Columns : Family::Rows;
    s.lanes = choose_lanes(kernel, vector_bytes, range.extent);
    s.lane = range.var;
    if (s.family == Family::Columns) {
      while (s.lanes > 1 && kernel.block % s.lanes != 0) s.lanes /= 2;
      Expr block = kernel.block;
      s.block_index = kernel.context->loop_symbol("block", ceildiv(range.extent, block));
      s.lane = kernel.context->loop_symbol("lane", block);
      Expr column = s.block_index * block + s.lane;
      for (Instr& i : kernel.instrs) {
        if (i.kind == InstrKind::Indirect) continue;
        i.index = substitute(i.index, [&](Expr symbol) { return symbol == range.var ? column : symbol; });
      }
    }
  }
  for (size_t i = 0; i < kernel.ranges.size(); ++i) {
    const loops::Range& r = kernel.ranges[i];
    if (r.kind == RangeKind::Inner && static_cast<int>(i) != kernel.vector) s.loops.push_back({r.var, r.extent, false});
  }
  if (s.family == Family::Rows) {
    s.loops.push_back({s.lane, kernel.ranges[static_cast<size_t>(kernel.vector)].extent, true});
  }
  s.outside = s.family == Family::Columns ? 4 : 2;
  s.innermost = s.outside + 2 * static_cast<int>(s.loops.size());
  // A load may leave only loops that surely run, or it would read what the program never touches.
  int lowest_load = s.innermost;
  while (lowest_load > s.outside) {
    const Loop& loop = s.loops[static_cast<size_t>((lowest_load - s.outside) / 2 - 1)];
    if (lower_bound(loop.extent).value_or(0) < 1) break;
    lowest_load -= 2;
  }
  if (lowest_load == s.outside) lowest_load = 0;

  size_t n = kernel.instrs.size();
  s.level.assign(n, 0);
  s.vector.assign(n, false);
  s.ordered.assign(n, false);
  s.kernel = std::move(kernel);
  for (const loops::Stage& stage : s.kernel.stages) {
    int own = stage.loop ? s.innermost : s.outside;
    for (Ref r : stage.body) {
      const Instr& i = s.kernel.instrs[r];
      int level = 0;
      bool vector = false;
      for (Ref in : i.in) {
        if (in == kNoRef || i.kind == InstrKind::Result) continue;
        level = std::max(level, s.level[in]);
        vector = vector || s.vector[in];
      }
      switch (i.kind) {
        case InstrKind::Index:
          level = s.level_of(i.index);
          vector = s.is_vector(i.index);
          break;
        case InstrKind::Load: {
          level = std::max(level, s.level_of(i.index));
          vector = vector || s.is_vector(i.index);
          const loops::KernelBuffer& b = s.kernel.buffers[static_cast<size_t>(i.buffer)];
          s.ordered[r] = b.written || !b.noalias;
          if (s.ordered[r]) level = own;
          if (stage.loop) level = std::max(level, lowest_load);
          break;
        }
        case InstrKind::Result:
          level = s.outside;
          vector = s.family == Family::Columns;
          break;
        case InstrKind::RowLoad:
        case InstrKind::Scan:
          s.ordered[r] = true;
          level = own;
          vector = s.family != Family::Scalar;
          break;
        case InstrKind::Store:
        case InstrKind::StoreAdd:
        case InstrKind::RowStore:
        case InstrKind::Accumulate: level = own; break;
        default: break;
      }
      s.level[r] = level;
      s.vector[r] = vector && s.lanes > 1;
    }
  }
  find_tile(s);
  find_next_row(s);
  find_pairs(s);
  return s;
}

}  // namespace vesta::codegen
