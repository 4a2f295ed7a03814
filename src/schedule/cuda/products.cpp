#include "schedule/cuda/products.h"

#include <algorithm>

#include "loops/levels.h"
#include "loops/lower.h"
#include "loops/product.h"

namespace vesta::schedule {

using loops::Instr;
using loops::InstrKind;
using loops::ProductTile;

namespace {

constexpr int64_t kMostRows = 256;   // more rows are bound by arithmetic
constexpr int64_t kColumnPiece = 8;  // that an instruction multiplies at least
constexpr int64_t kLeastStages = 4, kMostStages = 12;

// Measured on an H100.
constexpr double kShareOfMemory = 0.88;   // of the nominal speed
constexpr double kMostOfOne = 1.5;        // of a multiprocessor's even share of the memory's speed
constexpr double kSharedBytesPerNs = 95;  // that one multiprocessor copies to its shared memory
// Of one multiprocessor. Sums of float8 products are also added up in F32 (loops/product.h).
constexpr double kHalfProductsPerNs = 2900, kFloat8ProductsPerNs = 5800;
constexpr double kTileNs = 1000,
                 kPartsNs = 1500;  // before and after a tile's products; more, where two blocks share it
constexpr double kMostSumsOfTile = 14336, kNsPerSum = 0.15;  // a tile of more sums takes so much longer
constexpr double kOverlap = 0.15;  // of the shorter of two times that is not hidden by the longer one
// Of the library: of the nominal speed of memory, of arithmetic, and for each call.
constexpr double kLibraryShareForHalves = 0.7, kLibraryShareForFloat8 = 0.8, kLibraryArithmetic = 0.85,
                 kLibraryNs = 5500;
constexpr double kKernelNs = 2000;  // of a pointwise kernel, besides its bytes

struct Shape {
  int64_t rows, columns, inner;
  DType element = DType::BF16;
  int64_t sums = 1;

  double bytes() const { return static_cast<double>(columns * sums * inner * element_size(element)); }
  double products_per_ns() const { return is_float8(element) ? kFloat8ProductsPerNs : kHalfProductsPerNs; }
};

struct Choice {
  ProductTile tile;
  double ns = 0;
};

double together(double a, double b) { return std::max(a, b) + kOverlap * std::min(a, b); }

// The memory feeds all multiprocessors together; each copies and multiplies its own tiles, one after another.
double nanoseconds(const Shape& s, const ProductTile& t, const Target& target) {
  const int64_t tiles = (s.rows + t.rows - 1) / t.rows * ((s.columns + t.columns - 1) / t.columns);
  const int64_t blocks = tiles * t.parts, waves = (blocks + target.threads - 1) / target.threads;
  const double busy = std::min(1.0, kMostOfOne * static_cast<double>(blocks) / target.threads);
  const double memory = s.bytes() / (target.memory_bytes_per_ns * kShareOfMemory * busy);
  const auto inner = static_cast<double>(s.inner) / static_cast<double>(t.parts);
  const double columns = inner * static_cast<double>(t.columns * s.sums), rows = inner * static_cast<double>(t.rows);
  const double copies = (columns + rows) * static_cast<double>(element_size(s.element)) / kSharedBytesPerNs;
  const double arithmetic = columns * static_cast<double>(t.rows) / s.products_per_ns();
  const double ends =
      kTileNs + kNsPerSum * std::max(0.0, static_cast<double>(t.rows * t.columns * s.sums) - kMostSumsOfTile);
  const double of_tile = together(copies, arithmetic) + ends + (t.parts > 1 ? kPartsNs : 0);
  return together(memory, static_cast<double>(waves) * of_tile) + kTileNs;
}

// A call for each sum, and a kernel that reads the results of several.
double library_nanoseconds(const Shape& s, const Target& target) {
  const auto results = static_cast<double>(s.rows * s.columns), sums = static_cast<double>(s.sums);
  const double arithmetic =
      results * sums * static_cast<double>(s.inner) / (s.products_per_ns() * static_cast<double>(target.threads));
  const double share = is_float8(s.element) ? kLibraryShareForFloat8 : kLibraryShareForHalves;
  const double calls =
      std::max(s.bytes() / (target.memory_bytes_per_ns * share), arithmetic / kLibraryArithmetic) + kLibraryNs * sums;
  if (s.sums == 1) return calls;
  const double bytes = results * (sums + 1) * static_cast<double>(element_size(DType::BF16));
  return calls + kKernelNs + bytes / (target.memory_bytes_per_ns * kShareOfMemory);
}

std::optional<Choice> choose(const Shape& s, const Target& target) {
  const int64_t piece = loops::product_piece(s.element);
  const bool fits = s.rows > 1 && s.rows <= kMostRows && target.cpu == "sm_90" && s.columns >= kColumnPiece &&
                    s.inner * element_size(s.element) >= loops::kProductSliceBytes;
  if (!fits || s.inner % piece != 0) return std::nullopt;
  const int64_t rows = s.rows > 128 ? 256 : s.rows > 64 ? 128 : 64;
  const auto sums = static_cast<size_t>(s.sums);
  std::optional<Choice> best;
  for (int64_t columns = 16 / std::min<int64_t>(s.sums, 2); columns * s.sums <= loops::kMostProductColumns;
       columns += kColumnPiece) {
    if (columns * s.sums % 16 != 0) continue;
    for (const int64_t parts : {1, 2}) {
      Choice c;
      c.tile = with_stages({rows, columns, 0, parts}, sums, target);
      if (c.tile.stages < kLeastStages ||
          loops::product_registers(c.tile, sums, s.element) > loops::kMostProductRegisters)
        continue;
      c.ns = nanoseconds(s, c.tile, target);
      if (!best || c.ns < best->ns) best = c;
    }
  }
  return best && best->ns <= library_nanoseconds(s, target) ? best : std::nullopt;
}

// The pointwise nodes that read v, or what such nodes make of it: those found first.
std::vector<const graph::Node*> readers(const graph::Value* v) {
  constexpr size_t kMost = 16;
  std::vector<const graph::Node*> out;
  std::vector<const graph::Value*> values = {v};
  for (size_t i = 0; i < values.size() && out.size() < kMost; ++i)
    for (const graph::Node* n : values[i]->users) {
      if (n->op->family() != graph::Family::Pointwise || std::find(out.begin(), out.end(), n) != out.end()) continue;
      out.push_back(n);
      values.push_back(n->results[0]);
    }
  return out;
}

// Whether another product of the same rows has the node's sizes and types, and what is made of both results meets.
bool meets_another(const graph::Node& node, const loops::ProductOperands& operands) {
  const std::vector<const graph::Node*> own = readers(node.results[0]);
  return std::any_of(operands.rows->users.begin(), operands.rows->users.end(), [&](const graph::Node* n) {
    const auto other = n == &node ? std::nullopt : loops::product_operands(*n);
    if (!other || other->rows != operands.rows || other->columns->type.dtype != operands.columns->type.dtype ||
        n->results[0]->type.sizes != node.results[0]->type.sizes)
      return false;
    const std::vector<const graph::Node*> others = readers(n->results[0]);
    return std::find_first_of(own.begin(), own.end(), others.begin(), others.end()) != own.end();
  });
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
  if (!operands || operands->batch > 0 || node.prepacked) return false;
  const graph::TensorType &x = operands->rows->type, &w = operands->columns->type, &y = node.results[0]->type;
  if (!loops::can_multiply(x.dtype, w.dtype) || (!is_float8(x.dtype) && y.dtype != x.dtype)) return false;
  const std::vector<Expr> sizes = loops::reduced_sizes(node);
  const auto constant = [](Expr e) { return e.is_constant(); };
  if (!std::all_of(sizes.begin(), sizes.end(), constant)) return false;
  // Pieces of 16 bytes lie along the inner dimension of both operands.
  const auto in_pieces = [](const graph::TensorType& t, size_t inner) {
    for (size_t d = 0; d < t.dim(); ++d)
      if (d == inner ? !t.strides[d].is_constant(1)
                     : !t.sizes[d].is_constant(1) && !provably_divisible(t.strides[d], loops::product_piece(t.dtype)))
        return false;
    return true;
  };
  if (!in_pieces(x, x.dim() - 1) || !in_pieces(w, operands->columns_last ? 0 : 1)) return false;
  int64_t rows = 1;
  for (size_t d = 0; d + 2 < sizes.size(); ++d) rows *= sizes[d].constant();
  Shape s{rows, sizes[sizes.size() - 2].constant(), sizes.back().constant(), x.dtype};
  if (choose(s, target)) return true;
  s.sums = 2;
  return choose(s, target) && meets_another(node, *operands);
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
  const DType element = loops::product_types(instrs, sums[0]).row;
  for (const loops::ProductSum& s : sums)
    for (const loops::Ref r : loops::loads_of(s)) {
      const loops::DagBuffer& b = dag.buffers()[static_cast<size_t>(instrs[r].buffer)];
      if (b.written || b.alignment < loops::kProductPieceBytes ||
          !provably_divisible(instrs[r].index - ranges[2].var, loops::product_piece(element)))
        return std::nullopt;
    }
  const auto choice = choose({ranges[0].extent.constant(), ranges[1].extent.constant(), ranges[2].extent.constant(),
                              element, static_cast<int64_t>(sums.size())},
                             target);
  return choice ? std::optional(choice->tile) : std::nullopt;
}

}  // namespace vesta::schedule
