#include "loops/product.h"

#include <algorithm>
#include <unordered_set>

namespace vesta::loops {

namespace {

constexpr int64_t kElementBytes = 2;
constexpr int64_t kAlignment = 1024;      // of a slice: its rows are swizzled by their address
constexpr int64_t kBarrierBytes = 2 * 8;  // of a stage
constexpr int64_t kPadding = 8;           // floats: rows of sums begin in different banks

class Finder {
 public:
  explicit Finder(const Kernel& k) : k_(k) {}

  std::vector<ProductSum> run() {
    const auto is_loop = [](const Stage& s) { return s.loop; };
    const auto& r = k_.ranges;
    if (r.size() != 3 || r[1].kind != RangeKind::Parallel || r[2].kind != RangeKind::Inner ||
        std::count_if(k_.stages.begin(), k_.stages.end(), is_loop) != 1)
      return {};
    const Stage& loop = *std::find_if(k_.stages.begin(), k_.stages.end(), is_loop);
    std::vector<ProductSum> out;
    for (const Ref i : loop.body) {
      if (k_.instrs[i].kind != InstrKind::Accumulate) continue;
      const std::optional<ProductSum> s = sum(i);
      if (!s || (!out.empty() && out[0].row != s->row)) return {};
      out.push_back(*s);
    }
    const bool all = std::all_of(loop.body.begin(), loop.body.end(), [&](Ref i) { return seen_.contains(i); });
    return all ? out : std::vector<ProductSum>();
  }

 private:
  const Instr& take(Ref r) {
    seen_.insert(r);
    return k_.instrs[r];
  }

  std::optional<ProductSum> sum(Ref r) {
    const Instr& i = take(r);
    if (i.reduce != ReduceOp::Sum || i.dtype != DType::F32) return std::nullopt;
    const Instr& product = take(i.in[0]);
    if (product.kind != InstrKind::Compute || product.prim != Prim::Mul || product.dtype != DType::F32)
      return std::nullopt;
    for (const size_t first : {0, 1}) {
      const std::vector<ProductPiece> row = pieces(product.in[first], 0), columns = pieces(product.in[1 - first], 1);
      if (row.size() != 1 || k_.instrs[row[0].load].in[0] != kNoRef || columns.empty()) continue;
      const DType t = k_.instrs[row[0].load].dtype;
      if (std::any_of(columns.begin(), columns.end(), [&](const auto& p) { return k_.instrs[p.load].dtype != t; }))
        continue;
      return ProductSum{r, row[0].load, columns};
    }
    return std::nullopt;
  }

  // The pieces of an operand that depends on this one of the parallel variables. Empty: r is no operand.
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
    if (i.kind != InstrKind::Load || (i.dtype != DType::F16 && i.dtype != DType::BF16)) return {};
    const auto step = coefficient_of(i.index, k_.ranges[2].var);
    const bool alone = contains(i.index, k_.ranges[along].var) && !contains(i.index, k_.ranges[1 - along].var);
    if (!step || !step->is_constant(1) || !alone) return {};
    return {{r, kNoRef}};
  }

  const Kernel& k_;
  std::unordered_set<Ref> seen_;
};

}  // namespace

std::vector<ProductSum> product_sums(const Kernel& k) { return Finder(k).run(); }

int64_t product_pitch(const ProductTile& tile, size_t sums) {
  return tile.columns * static_cast<int64_t>(sums) + kPadding;
}

int64_t product_bytes(const ProductTile& tile, size_t sums) {
  const int64_t slice = (tile.rows + tile.columns * static_cast<int64_t>(sums)) * kProductSlice * kElementBytes;
  const int64_t results = tile.rows * product_pitch(tile, sums) * int64_t{sizeof(float)};
  return kAlignment + tile.stages * kBarrierBytes + std::max(tile.stages * slice, results);
}

}  // namespace vesta::loops
