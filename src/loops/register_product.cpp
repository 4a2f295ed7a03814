#include "loops/register_product.h"

#include <algorithm>

#include "base/check.h"

namespace vesta::loops {

namespace {

constexpr int64_t kLine = 64;  // bytes: a whole vector never crosses a line

// Whether the value of r depends on a variable.
class Dependence {
 public:
  Dependence(std::span<const Instr> instrs, Expr var) : depends_(instrs.size()) {
    for (size_t r = 0; r < instrs.size(); ++r) {
      const Instr& i = instrs[r];
      bool depends = has_index(i.kind) && contains(i.index, var);
      for (const Ref o : i.in) depends = depends || (o != kNoRef && depends_[o]);
      depends_[r] = depends;
    }
  }
  bool operator()(Ref r) const { return depends_[r] != 0; }

 private:
  std::vector<char> depends_;
};

// Whether r loads an element, without a mask, of a buffer that the kernel does not write.
bool is_free_load(const Kernel& k, Ref r) {
  const Instr& i = k.instrs[r];
  return i.kind == InstrKind::Load && i.in[0] == kNoRef && !k.buffers[static_cast<size_t>(i.buffer)].written;
}

// Whether such a load is of the operands' type.
bool is_plain_load(const Kernel& k, Ref r) {
  return is_free_load(k, r) && k.instrs[r].dtype == (k.registers.pairs ? DType::BF16 : DType::F32);
}

bool is_next_along(const Kernel& k, Ref load, Expr var) {
  const auto along = coefficient_of(k.instrs[load].index, var);
  return along && along->is_constant(1);
}

const Range& row_range(const Kernel& k) { return k.ranges[static_cast<size_t>(k.vector) - 1]; }
const Range& column_range(const Kernel& k) { return k.ranges[static_cast<size_t>(k.vector)]; }

Expr inner_elements(const Kernel& k) {
  Expr inner = 1;
  for (const Range& r : k.ranges)
    if (r.kind == RangeKind::Inner) inner = inner * r.extent;
  return inner;
}

}  // namespace

bool reads_along(const Kernel& k, Ref r, Expr var) { return is_plain_load(k, r) && is_next_along(k, r, var); }

Ref loaded_along(const Kernel& k, Ref factor, Expr var) {
  Ref load = factor;
  while (k.instrs[load].kind == InstrKind::Cast) load = k.instrs[load].in[0];
  return is_free_load(k, load) && is_next_along(k, load, var) ? load : kNoRef;
}

std::optional<RegisterSum> register_sum(std::span<const Instr> instrs, std::span<const Ref> loop, Expr row,
                                        Expr column) {
  const auto of_kind = [&](InstrKind kind) {
    return std::count_if(loop.begin(), loop.end(), [&](Ref r) { return instrs[r].kind == kind; });
  };
  if (of_kind(InstrKind::Accumulate) != 1 || of_kind(InstrKind::Indirect) + of_kind(InstrKind::Scan) > 0)
    return std::nullopt;
  if (std::any_of(loop.begin(), loop.end(), [&](Ref r) {
        const InstrKind kind = instrs[r].kind;
        return writes(kind) || kind == InstrKind::RowStore || kind == InstrKind::RowLoad;
      }))
    return std::nullopt;
  const Ref sum =
      *std::find_if(loop.begin(), loop.end(), [&](Ref r) { return instrs[r].kind == InstrKind::Accumulate; });
  const Instr& s = instrs[sum];
  if (s.reduce != ReduceOp::Sum || s.dtype != DType::F32) return std::nullopt;
  const Instr& product = instrs[s.in[0]];
  if (product.kind != InstrKind::Compute || product.prim != Prim::Mul || product.dtype != DType::F32)
    return std::nullopt;
  const auto is_widened = [&](Ref r) {
    return instrs[r].kind == InstrKind::Cast && value_type(instrs, instrs[r].in[0]) == DType::BF16;
  };
  const bool of_bf16 = is_widened(product.in[0]) && is_widened(product.in[1]);
  const auto factor = [&](size_t i) { return of_bf16 ? instrs[product.in[i]].in[0] : product.in[i]; };
  const Dependence on_row(instrs, row), on_column(instrs, column);
  for (const size_t first : {0, 1}) {
    const RegisterSum found{sum, factor(first), factor(1 - first), of_bf16};
    if (found.row == found.column) return std::nullopt;
    if (on_row(found.row) && !on_column(found.row) && on_column(found.column) && !on_row(found.column)) return found;
  }
  return std::nullopt;
}

std::optional<RegisterSum> register_sum(const Kernel& k) {
  const auto inner =
      std::count_if(k.ranges.begin(), k.ranges.end(), [](const Range& r) { return r.kind == RangeKind::Inner; });
  const auto is_loop = [](const Stage& s) { return s.loop; };
  const auto loop = std::find_if(k.stages.begin(), k.stages.end(), is_loop);
  if (inner < 1 || k.vector < 1 || column_range(k).kind != RangeKind::Parallel || loop == k.stages.end() ||
      std::any_of(loop + 1, k.stages.end(), is_loop))
    return std::nullopt;
  return register_sum(k.instrs, loop->body, row_range(k).var, column_range(k).var);
}

int64_t panel_columns(Expr index, Expr column) {
  if (index.is_constant()) return 0;
  const ExprNode& n = *index.node();
  if (n.kind == ExprKind::Mod && n.operands[0] == column && n.operands[1].is_constant())
    return n.operands[1].constant();
  int64_t found = 0;
  for (const Term& t : n.terms) found = std::max(found, panel_columns(t.factor, column));
  for (const Expr& o : n.operands) found = std::max(found, panel_columns(o, column));
  return found;
}

bool reads_rows_in_place(const Kernel& k, const RegisterSum& sum) {
  return reads_along(k, sum.row, k.ranges.back().var) &&
         std::all_of(k.ranges.begin(), k.ranges.end(), [&](const Range& r) {
           const auto apart = coefficient_of(k.instrs[sum.row].index, r.var);
           const bool is_last = r.var == k.ranges.back().var;
           return r.kind == RangeKind::Parallel ||
                  (apart && !contains(*apart, row_range(k).var) &&
                   (is_last || provably_divisible(*apart, k.registers.elements_of_step())));
         });
}

namespace {

// The index of element `element` of a step of the last Inner range.
Expr index_of_step(const Kernel& k, Expr index, Expr step, int64_t element) {
  const Expr inner = k.ranges.back().var;
  return substitute(index,
                    [&](Expr s) { return s == inner ? step * Expr(k.registers.elements_of_step()) + element : s; });
}

Expr new_step(const Kernel& k) {
  return k.context->loop_symbol("step", ceildiv(k.ranges.back().extent, k.registers.elements_of_step()));
}

}  // namespace

std::optional<Expr> step_of_columns(const Kernel& k, const RegisterSum& sum) {
  const Expr step = new_step(k);
  return coefficient_of(index_of_step(k, k.instrs[sum.column].index, step, 0), step);
}

bool reads_columns_in_place(const Kernel& k, const RegisterSum& sum) {
  const Range& columns = column_range(k);
  const Instr& load = k.instrs[sum.column];
  const int64_t tile = k.registers.columns, each = k.registers.elements_of_step();
  const auto next = step_of_columns(k, sum);
  const bool strides = std::all_of(k.ranges.begin(), k.ranges.end(), [&](const Range& r) {
    return r.kind == RangeKind::Parallel || r.var == k.ranges.back().var || coefficient_of(load.index, r.var);
  });
  if (!is_plain_load(k, sum.column) || !next || !provably_divisible(*next, each) || !strides || ends_in_half_step(k) ||
      !(provably_divisible(columns.extent, tile) || panel_columns(load.index, columns.var) == tile))
    return false;
  if (each > 1) {
    const Expr step = new_step(k);
    const Expr apart = index_of_step(k, load.index, step, 1) - index_of_step(k, load.index, step, 0);
    if (!apart.is_constant(1)) return false;
  }
  const Expr number = k.context->loop_symbol("tile", ceildiv(columns.extent, tile));
  const Expr lane = k.context->loop_symbol("lane", tile);
  const Expr at = substitute(load.index, [&](Expr s) { return s == columns.var ? number * Expr(tile) + lane : s; });
  const Expr step = new_step(k);
  const auto along = coefficient_of(index_of_step(k, at, step, 0), lane);
  return along && along->is_constant(each);
}

bool rows_have_pointers(const Kernel& k, const RegisterSum& sum) {
  return !k.registers.packs_rows && !coefficient_of(k.instrs[sum.row].index, row_range(k).var);
}

bool matrices_need_packed_rows(const Kernel& k, const RegisterSum& sum) {
  return ends_in_half_step(k) || !coefficient_of(k.instrs[sum.row].index, row_range(k).var);
}

int64_t rows_of_last_tile(const RegisterTile& t, Expr rows) {
  return rows.is_constant() ? rows.constant() % t.rows : (t.rows + 1) / 2;
}

int64_t packed_row_pitch(const Kernel& k) {
  Expr elements = k.registers.slice;
  if (has_one_slice(k) && k.ranges[k.ranges.size() - 2].kind == RangeKind::Inner) elements = inner_elements(k);
  const int64_t steps = ceildiv(elements, k.registers.elements_of_step()).constant();
  if (k.registers.depth > 0) return (steps + k.registers.depth - 1) / k.registers.depth * kMatrixColumns;
  return steps + 16;
}

bool ends_in_half_step(const Kernel& k) {
  return !provably_divisible(k.ranges.back().extent, k.registers.elements_of_step());
}

bool has_one_slice(const Kernel& k) {
  const RegisterTile& t = k.registers;
  const Expr last = k.ranges.back().extent;
  if (!provably_at_least(t.slice, last)) return false;
  if (t.depth > 0 && !provably_divisible(ceildiv(last, t.elements_of_step()), t.depth)) return false;
  if (k.ranges[k.ranges.size() - 2].kind == RangeKind::Parallel) return true;
  if ((t.packs_rows && t.depth == 0) || t.packs_columns) return false;
  return provably_at_least((t.depth > 0 ? kMatrixWindow : kRegisterPiece) * t.elements_of_step(), inner_elements(k));
}

RegisterScratch register_scratch(const Kernel& k, const RegisterSum& sum) {
  const RegisterTile& t = k.registers;
  const auto after = [](Expr begin, Expr floats) {
    return begin + ceildiv(floats * Expr(sizeof(float)), kLine) * Expr(kLine);
  };
  const Expr columns = after(0, t.packs_rows ? t.row_block * Expr(packed_row_pitch(k)) : Expr(0));
  const Expr steps = floordiv(t.slice, t.elements_of_step());
  const Expr sums = after(columns, t.packs_columns ? steps * Expr(t.columns) : Expr(0));
  const Expr pointers = after(sums, has_one_slice(k) ? Expr(t.rows * t.columns) : t.row_block * k.block);
  constexpr int64_t kFloats = sizeof(void*) / sizeof(float);
  const bool has_pointers = rows_have_pointers(k, sum);
  const Expr end = after(pointers, has_pointers ? (t.row_block + Expr(t.rows)) * Expr(kFloats) : Expr(0));
  return {0, columns, sums, pointers, end};
}

}  // namespace vesta::loops
