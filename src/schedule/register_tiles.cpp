#include "schedule/register_tiles.h"

#include <algorithm>
#include <cmath>

#include "loops/levels.h"
#include "loops/lower.h"
#include "loops/register_product.h"
#include "schedule/fusion.h"

namespace vesta::schedule {

using loops::Instr;
using loops::InstrKind;
using loops::Range;
using loops::RangeKind;
using loops::Ref;
using loops::RegisterTile;

namespace {

constexpr int64_t kMostSlice = 512;  // inner elements that are packed at once
constexpr int64_t kLeastInner = 16, kLeastRows = 4, kLeastColumns = 16;
constexpr int64_t kMostRowBlock = 256, kMostBlock = 960;  // of a work item; a multiple of most tiles' columns
constexpr int64_t kTriedParts = 64;                       // ways to divide the columns

// Nanoseconds, for one core of a current server or desktop.
constexpr double kMultiplyNs = 0.3;                       // one vector of products
constexpr double kPackRowNs = 0.7, kPackColumnNs = 0.15;  // of an element
constexpr double kTileNs = 15, kItemNs = 30;

// The rows of a tile, and its columns in vectors. The registers hold a tile's sums, one inner element of its columns,
// and that of one row.
struct Form {
  int64_t rows, vectors;
  double speed;  // of multiplications
};
constexpr Form kForms32[] = {{8, 3, 1}, {6, 4, 0.99}, {12, 2, 0.97}, {14, 1, 0.8}};
constexpr Form kForms16[] = {{6, 2, 1}, {4, 3, 0.97}, {12, 1, 0.85}};

std::span<const Form> forms(const Target& target) {
  if (!target.fma || target.vector_bytes < 32) return {};
  return target.vector_bytes == 64 ? std::span<const Form>(kForms32) : std::span<const Form>(kForms16);
}

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

struct Sizes {
  int64_t products, rows, columns, inner;
};

struct Tiling {
  RegisterTile tile;
  int64_t block = 0;
  double item_ns = 0, ns = 0;
};

// The time of a work item that has so many rows and columns.
double item_ns(const Form& f, const Sizes& s, int64_t rows, int64_t columns, int64_t lanes) {
  const int64_t tile_columns = f.vectors * lanes;
  const int64_t down = round_up(rows, f.rows) / f.rows, across = round_up(columns, tile_columns) / tile_columns;
  const auto tiles = static_cast<double>(down * across);
  const auto inner = static_cast<double>(s.inner);
  const double multiply = tiles * static_cast<double>(f.rows * f.vectors) * inner * kMultiplyNs / f.speed;
  const double pack = inner * (static_cast<double>(columns) * kPackColumnNs + static_cast<double>(rows) * kPackRowNs);
  return multiply + pack + tiles * kTileNs + kItemNs;
}

std::optional<Tiling> choose(const Sizes& s, const Target& target) {
  const int64_t lanes = target.vector_bytes / int64_t{sizeof(float)};
  const auto threads = static_cast<double>(std::max(1, target.threads));
  std::optional<Tiling> best;
  for (const Form& f : forms(target)) {
    const int64_t columns = f.vectors * lanes;
    for (int64_t row_block = f.rows; row_block <= kMostRowBlock; row_block *= 2) {
      const int64_t rows = std::min(row_block, s.rows);
      const int64_t least_parts = (s.columns + kMostBlock - 1) / kMostBlock;
      for (int64_t parts = least_parts; parts < least_parts + kTriedParts; ++parts) {
        const int64_t block = round_up((s.columns + parts - 1) / parts, columns);
        const double items = static_cast<double>(s.products) *
                             std::ceil(static_cast<double>(s.rows) / static_cast<double>(row_block)) *
                             std::ceil(static_cast<double>(s.columns) / static_cast<double>(block));
        const double item = item_ns(f, s, rows, std::min(block, s.columns), lanes);
        const double ns = std::ceil(items / threads) * item;
        if (!best || ns < best->ns * 0.999) {
          best = Tiling{{f.rows, columns, row_block, 0}, block, item, ns};
        }
        if (block == columns) break;
      }
      if (row_block >= s.rows) break;
    }
  }
  if (best) {
    const int64_t slices = (s.inner + kMostSlice - 1) / kMostSlice;
    best->tile.slice = round_up((s.inner + slices - 1) / slices, lanes);
  }
  return best;
}

}  // namespace

bool computes_in_registers(int64_t rows, int64_t columns, int64_t inner, const Target& target) {
  return target.device == DeviceType::CPU && !forms(target).empty() && rows >= kLeastRows && columns >= kLeastColumns &&
         inner >= kLeastInner;
}

int64_t panel_of(int64_t columns, const Target& target) {
  constexpr int64_t kLeastVectors = 2;  // a narrower tile multiplies slower than packing costs
  const int64_t lanes = target.vector_bytes / int64_t{sizeof(float)};
  for (const Form& f : forms(target))
    if (f.vectors >= kLeastVectors && columns % (f.vectors * lanes) == 0) return f.vectors * lanes;
  return 0;
}

bool is_register_product(const graph::Node& node, const Target& target) {
  const auto operands = target.device == DeviceType::CPU ? loops::product_operands(node) : std::nullopt;
  if (!operands || node.prepacked || operands->row_scale || operands->column_scale) return false;
  const std::vector<Expr> sizes = loops::reduced_sizes(node);
  const Expr columns = sizes[sizes.size() - 2], inner = sizes.back();
  if (!columns.is_constant() || !inner.is_constant()) return false;
  if (operands->rows->type.dtype != DType::F32 || operands->columns->type.dtype != DType::F32 ||
      node.results[0]->type.dtype != DType::F32)
    return false;
  const int64_t rows = hint_numel(std::span(sizes).first(sizes.size() - 2));
  return computes_in_registers(rows, columns.constant(), inner.constant(), target);
}

std::optional<RegisterChoice> choose_registers(const loops::Dag& dag, const Target& target) {
  const std::vector<Range>& ranges = dag.ranges();
  const auto inner =
      std::count_if(ranges.begin(), ranges.end(), [](const Range& r) { return r.kind == RangeKind::Inner; });
  if (inner != 1 || ranges.size() < 3 || forms(target).empty()) return std::nullopt;
  const loops::Levels levels = loops::levels_of(dag);
  std::vector<Ref> loop;
  for (Ref r = 0; r < dag.instrs().size(); ++r) {
    const InstrKind kind = dag.instrs()[r].kind;
    if (!levels.live[r]) continue;
    if (kind == InstrKind::StoreAdd || kind == InstrKind::Indirect || kind == InstrKind::Scan) return std::nullopt;
    if (levels.inner[r] || kind == InstrKind::Accumulate) loop.push_back(r);
  }
  RegisterChoice out;
  out.column = ranges.size() - 2;
  bool found = false;
  for (size_t d = 0; d < out.column; ++d) {
    if (!loops::register_sum(dag.instrs(), loop, ranges[d].var, ranges[out.column].var)) continue;
    if (!found || hint(ranges[d].extent) > hint(ranges[out.row].extent)) out.row = d;
    found = true;
  }
  if (!found) return std::nullopt;
  Sizes s{1, std::max<int64_t>(1, hint(ranges[out.row].extent)), hint(ranges[out.column].extent),
          hint(ranges.back().extent)};
  // A kernel for any number of rows should serve many.
  constexpr int64_t kManyRows = 64;
  if (!ranges[out.row].extent.is_constant()) s.rows = std::max(s.rows, kManyRows);
  out.items = 1;
  for (size_t d = 0; d < out.column; ++d) {
    if (d == out.row) continue;
    s.products *= std::max<int64_t>(1, hint(ranges[d].extent));
    out.items = out.items * ranges[d].extent;
  }
  if (!ranges.back().extent.is_constant() || s.inner < 1 || s.columns < 1) return std::nullopt;
  const auto tiling = choose(s, target);
  if (!tiling) return std::nullopt;
  out.tile = tiling->tile;
  out.block = tiling->block;
  out.items =
      out.items * ceildiv(ranges[out.row].extent, out.tile.row_block) * ceildiv(ranges[out.column].extent, out.block);
  out.item_cost = static_cast<int64_t>(std::max(1.0, tiling->item_ns));
  out.us = tiling->ns / 1000;
  return out;
}

void choose_packing(loops::Kernel& k) {
  constexpr int64_t kNearRows = 256;  // floats from one vector of columns to the next that need no copy
  const loops::RegisterSum sum = *loops::register_sum(k);
  const Instr& column = k.instrs[sum.column];
  k.registers.packs_rows = !loops::reads_rows_in_place(k, sum);
  k.registers.packs_columns = !loops::reads_columns_in_place(k, sum);
  if (!k.registers.packs_columns)
    k.registers.packs_columns = !provably_at_least(kNearRows, *coefficient_of(column.index, k.ranges.back().var));
}

}  // namespace vesta::schedule
