#include "schedule/cuda/products.h"

#include <algorithm>

#include "loops/levels.h"
#include "loops/lower.h"
#include "loops/product.h"

namespace vesta::schedule {

using loops::Instr;
using loops::InstrKind;
using loops::kProductPiece;
using loops::ProductTile;

namespace {

constexpr int64_t kMostRows = 128;  // more rows are bound by arithmetic
constexpr int64_t kLeastStages = 4, kMostStages = 12;

// Measured on an H100.
constexpr double kShareOfMemory = 0.88;   // of the nominal speed
constexpr double kMostOfOne = 1.5;        // of a multiprocessor's even share of the memory's speed
constexpr double kSharedBytesPerNs = 95;  // that one multiprocessor copies to its shared memory
constexpr double kProductsPerNs = 2900;   // of one multiprocessor
constexpr double kTileNs = 1000,
                 kPartsNs = 1500;  // before and after a tile's products; more, where two blocks share it
constexpr double kOverlap = 0.15;  // of the shorter of two times that is not hidden by the longer one
constexpr double kLibraryShare = 0.7, kLibraryNs = 5500;

struct Shape {
  int64_t rows, columns, inner;
  int64_t sums = 1;
};

struct Choice {
  ProductTile tile;
  double ns = 0;
};

// The memory feeds all multiprocessors together; each copies and multiplies its own tiles, one after another.
double nanoseconds(const Shape& s, const ProductTile& t, const Target& target) {
  const int64_t tiles = (s.rows + t.rows - 1) / t.rows * ((s.columns + t.columns - 1) / t.columns);
  const int64_t blocks = tiles * t.parts, waves = (blocks + target.threads - 1) / target.threads;
  const double busy = std::min(1.0, kMostOfOne * static_cast<double>(blocks) / target.threads);
  const double memory = static_cast<double>(s.columns * s.sums * s.inner * loops::kProductElement) /
                        (target.memory_bytes_per_ns * kShareOfMemory * busy);
  const auto inner = static_cast<double>(s.inner) / static_cast<double>(t.parts);
  const double columns = inner * static_cast<double>(t.columns * s.sums), rows = inner * static_cast<double>(t.rows);
  const double copies = (columns + rows) * loops::kProductElement / kSharedBytesPerNs;
  const double arithmetic = columns * static_cast<double>(t.rows) / kProductsPerNs;
  const double own =
      static_cast<double>(waves) * (std::max(copies, arithmetic) + kTileNs + (t.parts > 1 ? kPartsNs : 0));
  return std::max(memory, own) + kOverlap * std::min(memory, own) + kTileNs;
}

std::optional<Choice> choose(const Shape& s, const Target& target) {
  const bool fits = s.rows > 1 && s.rows <= kMostRows && target.cpu == "sm_90" && s.columns >= kProductPiece &&
                    s.inner >= loops::kProductSlice;
  if (!fits || s.inner % kProductPiece != 0) return std::nullopt;
  std::optional<Choice> best;
  for (int64_t columns = 16 / std::min<int64_t>(s.sums, 2); columns * s.sums <= loops::kMostProductColumns;
       columns += kProductPiece) {
    if (columns * s.sums % 16 != 0) continue;
    for (const int64_t parts : {1, 2}) {
      Choice c;
      c.tile = with_stages({s.rows > 64 ? kMostRows : 64, columns, 0, parts}, static_cast<size_t>(s.sums), target);
      if (c.tile.stages < kLeastStages) continue;
      c.ns = nanoseconds(s, c.tile, target);
      if (!best || c.ns < best->ns) best = c;
    }
  }
  if (!best) return std::nullopt;
  const double bytes = static_cast<double>(s.columns * s.inner * s.sums * loops::kProductElement);
  const double library = bytes / (target.memory_bytes_per_ns * kLibraryShare) + kLibraryNs;
  return best->ns <= library ? best : std::nullopt;
}

}  // namespace

bool computes_product(int64_t rows, int64_t columns, int64_t inner, const Target& target) {
  return choose({rows, columns, inner}, target).has_value();
}

ProductTile with_stages(ProductTile tile, size_t sums, const Target& target) {
  for (tile.stages = kMostStages; tile.stages > 0; --tile.stages)
    if (loops::product_bytes(tile, sums) <= target.l1_bytes - kOwnShared) break;
  return tile;
}

bool is_kernel_product(const graph::Node& node, const Target& target) {
  const auto operands = target.device == DeviceType::CUDA ? loops::product_operands(node) : std::nullopt;
  if (!operands || node.prepacked) return false;
  const graph::TensorType &x = operands->rows->type, &w = operands->columns->type, &y = node.results[0]->type;
  if ((y.dtype != DType::BF16 && y.dtype != DType::F16) || x.dtype != y.dtype || w.dtype != y.dtype) return false;
  const std::vector<Expr> sizes = loops::reduced_sizes(node);
  const auto constant = [](Expr e) { return e.is_constant(); };
  if (!std::all_of(sizes.begin(), sizes.end(), constant)) return false;
  // Pieces of 16 bytes lie along the inner dimension of both operands.
  const auto in_pieces = [](const graph::TensorType& t, size_t inner) {
    for (size_t d = 0; d < t.dim(); ++d)
      if (d == inner ? !t.strides[d].is_constant(1)
                     : !t.sizes[d].is_constant(1) && !provably_divisible(t.strides[d], kProductPiece))
        return false;
    return true;
  };
  if (!in_pieces(x, x.dim() - 1) || !in_pieces(w, operands->columns_last ? 0 : 1)) return false;
  int64_t rows = 1;
  for (size_t d = 0; d + 2 < sizes.size(); ++d) rows *= sizes[d].constant();
  return computes_product(rows, sizes[sizes.size() - 2].constant(), sizes.back().constant(), target);
}

std::optional<ProductTile> choose_product(const loops::Dag& dag, const Target& target) {
  const std::vector<loops::Range>& ranges = dag.ranges();
  const std::vector<Instr>& instrs = dag.instrs();
  const loops::Levels levels = loops::levels_of(dag);
  std::vector<loops::Ref> loop;
  for (loops::Ref r = 0; r < instrs.size(); ++r) {
    const InstrKind kind = instrs[r].kind;
    if (kind == InstrKind::StoreAdd || kind == InstrKind::Indirect) return std::nullopt;
    if (levels.live[r] && (levels.inner[r] || kind == InstrKind::Accumulate)) loop.push_back(r);
  }
  const std::vector<loops::ProductSum> sums = loops::product_sums(ranges, instrs, loop);
  const auto constant = [](const loops::Range& r) { return r.extent.is_constant(); };
  if (sums.empty() || sums.size() > 2 || !std::all_of(ranges.begin(), ranges.end(), constant)) return std::nullopt;
  for (const loops::ProductSum& s : sums)
    for (const loops::Ref r : loops::loads_of(s)) {
      const loops::DagBuffer& b = dag.buffers()[static_cast<size_t>(instrs[r].buffer)];
      if (b.written || b.alignment < loops::kProductPieceBytes ||
          !provably_divisible(instrs[r].index - ranges[2].var, kProductPiece))
        return std::nullopt;
    }
  const auto choice = choose({ranges[0].extent.constant(), ranges[1].extent.constant(), ranges[2].extent.constant(),
                              static_cast<int64_t>(sums.size())},
                             target);
  return choice ? std::optional(choice->tile) : std::nullopt;
}

}  // namespace vesta::schedule
