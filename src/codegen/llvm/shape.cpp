#include "codegen/llvm/shape.h"

#include <algorithm>

#include "base/check.h"

namespace vesta::codegen {

using loops::Instr;
using loops::InstrKind;
using loops::Kernel;
using loops::kNoRef;
using loops::RangeKind;
using loops::Ref;

namespace {

// The instructions that a stage saves on two vectors if they are the even and the odd elements of a run; nullopt:
// something in the stage needs its elements in sequence.
std::optional<int> saved_by_pairs(const Shape& s, const loops::Stage& stage) {
  int saved = 0;
  auto moves = [&](DType t, bool loads) {
    saved += t == DType::BF16 ? (loads ? 2 : 4) : element_size(t) <= 4 ? -2 : -4;
  };
  for (Ref r : stage.body) {
    const Instr& i = s.kernel.instrs[r];
    const std::vector<Ref>& tiled = s.kernel.tile.loads;
    const bool turned = std::find(tiled.begin(), tiled.end(), r) != tiled.end();
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

// The values of a column program cross its stages, so all stages must use one order.
void find_pairs(Shape& s) {
  s.pairs.assign(s.kernel.stages.size(), false);
  if (s.kind == LoopKind::Scalar || s.lanes < 2 || s.kernel.registers.rows > 0) return;
  int all = 0;
  for (size_t n = 0; n < s.kernel.stages.size(); ++n) {
    const loops::Stage& stage = s.kernel.stages[n];
    if (s.kind == LoopKind::Rows && !stage.loop) continue;
    const std::optional<int> saved = saved_by_pairs(s, stage);
    if (s.kind == LoopKind::Rows) {
      s.pairs[n] = saved.value_or(0) > 0;
    } else if (!saved) {
      return;
    } else {
      all += *saved;
    }
  }
  if (s.kind == LoopKind::Columns) s.pairs.assign(s.pairs.size(), all > 0);
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
      if (kind == LoopKind::Columns && s == lane) l = outside;
      if (kernel.registers.rows > 0 && s == row) l = 4;
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
    if (kind != LoopKind::Scalar && s == lane) return true;
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

void Shape::drop_lanes(const std::map<Ref, bool>& known) {
  for (const loops::Stage& stage : kernel.stages) {
    for (const Ref r : stage.body) {
      const Instr& i = kernel.instrs[r];
      if (known.contains(r)) {
        vector[r] = false;
      } else if (i.kind == InstrKind::Compute || i.kind == InstrKind::Cast) {
        vector[r] = std::ranges::any_of(i.in, [&](Ref in) { return in != kNoRef && vector[in]; });
      }
    }
  }
}

Shape analyse(Kernel kernel) {
  Shape s;
  if (kernel.vector >= 0) {
    const loops::Range& range = kernel.ranges[static_cast<size_t>(kernel.vector)];
    s.kind = range.kind == RangeKind::Parallel ? LoopKind::Columns : LoopKind::Rows;
    s.lanes = static_cast<int>(kernel.lanes);
    s.lane = range.var;
    if (s.kind == LoopKind::Columns) {
      Expr block = kernel.block;
      s.block_index = kernel.context->loop_symbol("block", ceildiv(range.extent, block));
      s.lane = kernel.context->loop_symbol("lane", block);
      const Expr column = s.block_index * block + s.lane;
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
  if (s.kind == LoopKind::Rows) {
    s.loops.push_back({s.lane, kernel.ranges[static_cast<size_t>(kernel.vector)].extent, true});
  }
  if (const loops::RegisterTile& t = kernel.registers; t.rows > 0) {
    const loops::Range& rows = kernel.ranges[static_cast<size_t>(kernel.vector) - 1];
    s.row = rows.var;
    s.row_block = kernel.context->loop_symbol("row_block", ceildiv(rows.extent, t.row_block));
  }
  s.outside = kernel.registers.rows > 0 ? 6 : s.kind == LoopKind::Columns ? 4 : 2;
  s.innermost = s.outside + 2 * static_cast<int>(s.loops.size());
  // A load may only leave loops that surely run. Otherwise it would read memory that the program never touches.
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
          vector = s.kind == LoopKind::Columns;
          break;
        case InstrKind::RowLoad:
        case InstrKind::Scan:
          s.ordered[r] = true;
          level = own;
          vector = s.kind != LoopKind::Scalar;
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
  find_pairs(s);
  return s;
}

}  // namespace vesta::codegen
