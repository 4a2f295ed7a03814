#include "loops/product.h"

#include <algorithm>
#include <unordered_set>

namespace vesta::loops {

namespace {

constexpr int64_t kSliceAlignment = 1024;  // bytes; a row is swizzled by its address within a slice
constexpr int64_t kBarrierBytes = 2 * 8;   // of a stage
constexpr int64_t kPadding = 8;            // floats: rows of sums begin in different banks

class Finder {
 public:
  Finder(std::span<const Range> ranges, std::span<const Instr> instrs) : ranges_(ranges), instrs_(instrs) {}

  std::vector<ProductSum> run(std::span<const Ref> loop) {
    if (ranges_.size() != 3 || ranges_[1].kind != RangeKind::Parallel || ranges_[2].kind != RangeKind::Inner) return {};
    std::vector<ProductSum> out;
    for (const Ref i : loop) {
      if (instrs_[i].kind != InstrKind::Accumulate) continue;
      const std::optional<ProductSum> s = sum(i);
      if (!s) return {};
      const bool alike = out.empty() || (out[0].row == s->row &&
                                         product_types(instrs_, out[0]).column == product_types(instrs_, *s).column);
      if (!alike) return {};
      out.push_back(*s);
    }
    const bool all = std::all_of(loop.begin(), loop.end(), [&](Ref i) { return seen_.contains(i); });
    return all ? out : std::vector<ProductSum>();
  }

 private:
  const Instr& take(Ref r) {
    seen_.insert(r);
    return instrs_[r];
  }

  std::optional<ProductSum> sum(Ref r) {
    const Instr& i = take(r);
    if (i.reduce != ReduceOp::Sum || i.dtype != DType::F32) return std::nullopt;
    const Instr& product = take(i.in[0]);
    if (product.kind != InstrKind::Compute || product.prim != Prim::Mul || product.dtype != DType::F32)
      return std::nullopt;
    for (const size_t first : {0, 1}) {
      const std::vector<ProductPiece> row = pieces(product.in[first], 0), columns = pieces(product.in[1 - first], 1);
      if (row.size() != 1 || instrs_[row[0].load].in[0] != kNoRef || columns.empty()) continue;
      const DType t = instrs_[columns[0].load].dtype;
      if (!can_multiply(instrs_[row[0].load].dtype, t) ||
          std::any_of(columns.begin(), columns.end(), [&](const auto& p) { return instrs_[p.load].dtype != t; }))
        continue;
      return ProductSum{r, row[0].load, columns};
    }
    return std::nullopt;
  }

  // The pieces of r, an operand that depends on the variable of range `along`. Empty: r is no such operand.
  std::vector<ProductPiece> pieces(Ref r, size_t along) {
    const Instr& i = take(r);
    if (i.kind == InstrKind::Cast && i.dtype == DType::F32) return pieces(i.in[0], along);
    if (i.kind == InstrKind::Compute && i.prim == Prim::Select) {
      std::vector<ProductPiece> out = pieces(i.in[1], along), rest = pieces(i.in[2], along);
      if (out.size() != 1 || rest.empty()) return {};
      out[0].condition = i.in[0];
      out.insert(out.end(), rest.begin(), rest.end());
      return out;
    }
    if (i.kind != InstrKind::Load || !can_multiply(i.dtype, i.dtype)) return {};
    const auto step = coefficient_of(i.index, ranges_[2].var);
    const bool alone = contains(i.index, ranges_[along].var) && !contains(i.index, ranges_[1 - along].var);
    if (!step || !step->is_constant(1) || !alone) return {};
    return {{r, kNoRef}};
  }

  const std::span<const Range> ranges_;
  const std::span<const Instr> instrs_;
  std::unordered_set<Ref> seen_;
};

}  // namespace

bool can_multiply(DType row, DType column) {
  const auto is_float8 = [](DType t) { return t == DType::F8E4M3FN || t == DType::F8E5M2; };
  if (row == DType::F16 || row == DType::BF16) return row == column;
  return is_float8(row) && is_float8(column);
}

ProductTypes product_types(std::span<const Instr> instrs, const ProductSum& sum) {
  return {instrs[sum.row].dtype, instrs[sum.columns[0].load].dtype};
}

int64_t product_piece(DType element) { return kProductPieceBytes / element_size(element); }

int64_t product_registers(const ProductTile& tile, size_t sums, DType element) {
  // Two teams share the rows. An instruction multiplies 64 of them.
  const int64_t of_instruction = tile.columns * static_cast<int64_t>(sums) / 2;
  return of_instruction * ((tile.rows + 127) / 128 + (is_float8(element) ? 1 : 0));
}

std::vector<ProductSum> product_sums(std::span<const Range> ranges, std::span<const Instr> instrs,
                                     std::span<const Ref> loop) {
  return Finder(ranges, instrs).run(loop);
}

std::vector<ProductSum> product_sums(const Kernel& k) {
  const auto is_loop = [](const Stage& s) { return s.loop; };
  const auto loop = std::find_if(k.stages.begin(), k.stages.end(), is_loop);
  if (loop == k.stages.end() || std::any_of(loop + 1, k.stages.end(), is_loop)) return {};
  return product_sums(k.ranges, k.instrs, loop->body);
}

std::vector<Ref> loads_of(const ProductSum& sum) {
  std::vector<Ref> out = {sum.row};
  for (const ProductPiece& piece : sum.columns) out.push_back(piece.load);
  return out;
}

int64_t product_pitch(const ProductTile& tile, size_t sums) {
  return tile.columns * static_cast<int64_t>(sums) + kPadding;
}

int64_t product_bytes(const ProductTile& tile, size_t sums) {
  const int64_t slice = (tile.rows + tile.columns * static_cast<int64_t>(sums)) * kProductSliceBytes;
  const int64_t results = tile.rows * product_pitch(tile, sums) * int64_t{sizeof(float)};
  return kSliceAlignment + tile.stages * kBarrierBytes + std::max(tile.stages * slice, results);
}

}  // namespace vesta::loops
