#include "loops/product.h"

#include <algorithm>

namespace vesta::loops {

namespace {
constexpr int64_t kElementBytes = 2;
constexpr int64_t kAlignment = 1024;      // of a slice: its rows are swizzled by their address
constexpr int64_t kBarrierBytes = 2 * 8;  // of a stage
constexpr int64_t kPadding = 8;           // floats: rows of sums begin in different banks
}  // namespace

std::vector<ProductSum> product_sums(const Kernel& k) {
  std::vector<ProductSum> out;
  const bool ranges = k.ranges.size() == 3 && k.ranges[0].kind == RangeKind::Parallel &&
                      k.ranges[1].kind == RangeKind::Parallel && k.ranges[2].kind == RangeKind::Inner;
  if (!ranges || std::count_if(k.stages.begin(), k.stages.end(), [](const Stage& s) { return s.loop; }) != 1) return out;
  const Stage& loop = *std::find_if(k.stages.begin(), k.stages.end(), [](const Stage& s) { return s.loop; });
  const auto loaded = [&](Ref r) { return k.instrs[r].kind == InstrKind::Cast ? k.instrs[r].in[0] : r; };
  const auto is_operand = [&](Ref r, size_t along, size_t other) {
    const Instr& i = k.instrs[r];
    if (i.kind != InstrKind::Load || i.in[0] != kNoRef || (i.dtype != DType::F16 && i.dtype != DType::BF16)) return false;
    const auto step = coefficient_of(i.index, k.ranges[2].var);
    return step && step->is_constant(1) && contains(i.index, k.ranges[along].var) &&
           !contains(i.index, k.ranges[other].var);
  };
  size_t others = 0;  // loads, casts to F32 and products
  for (const Ref r : loop.body) {
    const Instr& i = k.instrs[r];
    if (i.kind != InstrKind::Accumulate) {
      ++others;
      continue;
    }
    const Instr& product = k.instrs[i.in[0]];
    if (i.reduce != ReduceOp::Sum || i.dtype != DType::F32 || product.kind != InstrKind::Compute ||
        product.prim != Prim::Mul || product.dtype != DType::F32)
      return {};
    Ref row = loaded(product.in[0]), column = loaded(product.in[1]);
    if (!is_operand(row, 0, 1)) std::swap(row, column);
    if (!is_operand(row, 0, 1) || !is_operand(column, 1, 0) || k.instrs[row].dtype != k.instrs[column].dtype ||
        (!out.empty() && out[0].row != row))
      return {};
    out.push_back({r, row, column});
  }
  return others == 3 * out.size() + 2 ? out : std::vector<ProductSum>();
}

int64_t product_threads(const ProductTile& tile) { return kProductCopiers + 2 * tile.rows; }

int64_t product_pitch(const ProductTile& tile, size_t sums) {
  return tile.columns * static_cast<int64_t>(sums) + kPadding;
}

int64_t product_bytes(const ProductTile& tile, size_t sums) {
  const int64_t slice = (tile.rows + tile.columns * static_cast<int64_t>(sums)) * kProductSlice * kElementBytes;
  const int64_t results = tile.rows * product_pitch(tile, sums) * int64_t{sizeof(float)};
  return kAlignment + tile.stages * kBarrierBytes + std::max(tile.stages * slice, results);
}

}  // namespace vesta::loops
