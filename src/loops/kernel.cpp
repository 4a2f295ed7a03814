#include "loops/kernel.h"

#include "base/check.h"
#include "loops/product.h"
#include "loops/register_product.h"

namespace vesta::loops {

namespace {
constexpr int64_t kRowPadding = 64;    // elements: the widest vector of the narrowest type
constexpr int64_t kRowAlignment = 64;  // bytes
constexpr int64_t kSharedAlignment = 16;
constexpr int64_t kToldBytes = 32;  // that a warp or a block tells others about an accumulator
}  // namespace

Expr launched_items(const Kernel& k) {
  if (const ProductTile& p = k.product; p.rows > 0)
    return ceildiv(k.ranges[0].extent, p.rows) * ceildiv(k.ranges[1].extent, p.columns) * p.parts;
  if (k.tile.rows == 0) return work_items(k) * k.threads.parts;
  Expr squares = ceildiv(k.ranges.back().extent, k.tile.columns);
  for (size_t i = 0; i + 1 < k.ranges.size(); ++i)
    squares = squares * (k.ranges[i].var == k.tile.row ? ceildiv(k.ranges[i].extent, k.tile.rows) : k.ranges[i].extent);
  return squares;
}

int64_t items_of_block(const Kernel& k) {
  if (k.tile.rows > 0 || k.product.rows > 0) return 1;
  const bool loops =
      std::any_of(k.ranges.begin(), k.ranges.end(), [](const Range& r) { return r.kind == RangeKind::Inner; });
  const bool of_row = loops && (!k.threads.across || has_scan(k));
  return k.threads.block / k.threads.team * (of_row ? 1 : k.threads.each);
}

bool has_scan(const Kernel& k) {
  return std::any_of(k.instrs.begin(), k.instrs.end(), [](const Instr& i) { return i.kind == InstrKind::Scan; });
}

Ref erf_beside_one(const Kernel& k, const Instr& i) {
  if (i.kind != InstrKind::Compute || i.prim != Prim::Add || i.dtype != DType::F32) return kNoRef;
  for (const size_t n : {0, 1}) {
    const Instr &one = k.instrs[i.in[n]], &erf = k.instrs[i.in[1 - n]];
    if (one.kind == InstrKind::Constant && one.fimm == 1 && erf.kind == InstrKind::Compute && erf.prim == Prim::Erf &&
        erf.dtype == DType::F32)
      return i.in[1 - n];
  }
  return kNoRef;
}

int64_t shared_offset(const Kernel& k, int slot) {
  const Threads& t = k.threads;
  int64_t offset = 0;
  for (int i = 0; i < slot; ++i) {
    int64_t elements = row_elements(k).constant();
    if (t.parts > 1)
      elements = (elements + t.team * t.each * t.parts - 1) / (t.team * t.each * t.parts) * t.team * t.each;
    const int64_t bytes = elements * element_size(k.row_slots[static_cast<size_t>(i)]);
    offset += (bytes + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment;
  }
  return offset;
}

int64_t shared_bytes(const Kernel& k) {
  if (k.product.rows > 0) return product_bytes(k.product, product_sums(k).size());
  const int64_t rows = k.threads.shared ? shared_offset(k, static_cast<int>(k.row_slots.size())) : 0;
  if (k.threads.parts == 1) return rows;
  const auto accumulators =
      std::count_if(k.instrs.begin(), k.instrs.end(), [](const Instr& i) { return i.kind == InstrKind::Accumulate; });
  return rows + accumulators * kToldBytes * (k.threads.block / 32 + k.threads.parts);
}

Expr work_items(const Kernel& k) {
  Expr items = 1;
  for (size_t i = 0; i < k.ranges.size(); ++i) {
    const Range& r = k.ranges[i];
    if (r.kind != RangeKind::Parallel) continue;
    const bool blocked = static_cast<int>(i) == k.vector && !k.block.is_constant(0);
    const bool rows = k.registers.rows > 0 && static_cast<int>(i) + 1 == k.vector;
    items = items * (blocked ? ceildiv(r.extent, k.block) : rows ? ceildiv(r.extent, k.registers.row_block) : r.extent);
  }
  return items;
}

Expr row_elements(const Kernel& k) {
  bool columns = k.vector >= 0 && k.ranges[static_cast<size_t>(k.vector)].kind == RangeKind::Parallel;
  Expr n = columns ? k.block : Expr(1);
  for (const Range& r : k.ranges) {
    if (r.kind == RangeKind::Inner) n = n * r.extent;
  }
  return n;
}

Expr row_offset(const Kernel& k, int slot) {
  Expr elements = row_elements(k) + kRowPadding;
  Expr offset = 0;
  for (int i = 0; i < slot; ++i) {
    Expr bytes = elements * element_size(k.row_slots[static_cast<size_t>(i)]);
    offset = offset + ceildiv(bytes, kRowAlignment) * kRowAlignment;
  }
  return offset;
}

Expr scratch_bytes(const Kernel& k) {
  if (k.registers.rows > 0) return register_scratch(k, *register_sum(k)).bytes;
  return row_offset(k, static_cast<int>(k.row_slots.size()));
}

DType value_type(std::span<const Instr> instrs, Ref r) {
  VESTA_CHECK(r < instrs.size(), "instruction {} of {}", r, instrs.size());
  const Instr& i = instrs[r];
  if (i.kind == InstrKind::Compute && yields_bool(i.prim)) return DType::Bool;
  if (i.kind == InstrKind::Result && i.imm == 1) return DType::I64;
  return i.dtype;
}

DType compute_type(std::span<const Instr> instrs, const Instr& i) {
  return value_type(instrs, i.prim == Prim::Select ? i.in[1] : i.in[0]);
}

}  // namespace vesta::loops
