#include "schedule/register_tiles.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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

// Inner elements of a slice: whole pieces of sums.
constexpr int64_t kMostSlice32 = 2 * loops::kRegisterPiece, kMostSlice16 = loops::kRegisterPiece;
constexpr int64_t kLeastInner = 16, kLeastRows = 4, kLeastColumns = 16;
constexpr int64_t kMostRowBlock = 256, kMostBlock = 960;  // of a work item; a multiple of most tiles' columns
constexpr int64_t kTriedRowParts = 16, kTriedParts = 64;  // ways to divide the rows, the columns

// Nanoseconds, for one core of a current server or desktop.
constexpr double kMultiplyNs = 0.3;                       // one vector of products
constexpr double kPackRowNs = 0.7, kPackColumnNs = 0.15;  // of an element
constexpr double kCopyRowNs = 0.15;                       // the same, of rows for matrices
constexpr double kReadNs = 0.1;                           // of an element that is not packed
constexpr double kTileNs = 15, kItemNs = 30;
constexpr double kLastItem = 0.25;   // of an item: threads wait for the last one, as they do not run equally fast
constexpr double kFewerSpeed = 0.7;  // where a tile has half of its vectors
constexpr double kFarSpeed = 0.7;    // where rows do not fit the sets of the cache
constexpr double kSliceRowNs = 2;    // of a slice's row: its sums are read and written again
constexpr int64_t kLeastSums = 4;    // of a tile: an addition to a sum waits for the one before

// The rows of a tile, and its columns in vectors. The registers hold a tile's sums, one inner element of its columns,
// and that of one row.
struct Form {
  int64_t rows, vectors;
  double speed;  // of multiplications
};
constexpr Form kForms32[] = {{8, 3, 1}, {14, 2, 0.99}, {6, 4, 0.99}, {12, 2, 0.97}, {14, 1, 0.8}};
constexpr Form kForms16[] = {{6, 2, 1}, {4, 3, 0.97}, {12, 1, 0.85}};
// In registers for matrices. All forms have the same columns, so that products of any number of rows read the same
// panels.
constexpr Form kMatrixForms[] = {{32, 2, 4}, {16, 2, 3}};

std::span<const Form> forms(const Target& target, bool matrix) {
  if (!target.fma || target.vector_bytes < 32) return {};
  if (matrix) return kMatrixForms;
  return target.vector_bytes == 64 ? std::span<const Form>(kForms32) : std::span<const Form>(kForms16);
}

// Every form that the registers have room for, with the speed of the closest one above: for tuning.
std::vector<Form> all_forms(const Target& target, bool matrix) {
  const bool wide = target.vector_bytes == 64;
  const int64_t registers = wide ? 32 : 16;
  std::vector<Form> out;
  if (matrix) return {std::begin(kMatrixForms), std::end(kMatrixForms)};
  for (const Form& f : forms(target, false)) {
    for (int64_t rows = f.rows; 3 * rows >= 2 * f.rows; --rows)
      if (std::ranges::none_of(out, [&](const Form& o) { return o.rows == rows && o.vectors == f.vectors; }) &&
          rows * f.vectors <= loops::kMostRegisterSums && rows * f.vectors + f.vectors < registers)
        out.push_back({rows, f.vectors, f.speed});
  }
  return out;
}

// Panels of so many vectors are taken unless others are clearly faster: products with the same tiles share kernels.
constexpr int64_t kUsualVectors = 2;
constexpr double kUsualFavour = 0.96;

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Whether a level 1 cache holds a line of each row of a tile. Rows that are a large power of two apart share few sets:
// then each element comes from the level 2 cache.
bool rows_fit_sets(int64_t rows, int64_t apart) {
  constexpr int64_t kWayBytes = 4096, kWays = 8;  // those of most processors; the columns take one way
  const int64_t sets = kWayBytes / std::gcd(kWayBytes, apart * int64_t{sizeof(float)});
  return (rows + sets - 1) / sets < kWays;
}

struct Sizes {
  int64_t products, rows, columns;
  int64_t inner;    // steps of the last Inner range, of one F32 or two BF16 each
  int64_t windows;  // of the other Inner ranges
  int64_t apart;    // steps from one row to the next; 0: rows are packed
  int64_t panel;    // columns that lie together in memory, one inner element after another; 0: columns are packed
  bool exact_rows = false;  // the number of rows is no hint
  int64_t depth = 0;        // of RegisterTile
};

int64_t lanes_of(const Target& target) { return target.vector_bytes / int64_t{sizeof(float)}; }
int64_t most_slice(int64_t lanes) { return lanes == 16 ? kMostSlice32 : kMostSlice16; }
int64_t slices_of(int64_t inner, int64_t lanes) { return (inner + most_slice(lanes) - 1) / most_slice(lanes); }

// The steps of an instruction for matrices: as many as there can be, or a divisor of all steps that needs fewer
// instructions than the steps that are left do.
int64_t depth_of(int64_t steps) {
  constexpr int64_t kMost = loops::kMatrixRows;
  constexpr int64_t kRest = 3;  // the sums are stored and read again: as long as so many instructions for each register
  int64_t best = kMost, count = steps / kMost + (steps % kMost == 0 ? 0 : 1 + kRest);
  for (int64_t depth = kMost - 1; depth > 0; --depth)
    if (steps % depth == 0 && steps / depth < count) {
      best = depth;
      count = steps / depth;
    }
  return best;
}

struct Tiling {
  RegisterTile tile;
  int64_t block = 0;
  double item_ns = 0, ns = 0;
};

// The time of a work item that has so many rows and columns.
double item_ns(const Form& f, const Sizes& s, int64_t rows, int64_t columns, int64_t lanes) {
  const int64_t tile_columns = f.vectors * lanes;
  // The last tile of columns computes half of its vectors if the other half has no columns.
  const int64_t whole = columns / tile_columns, rest = columns % tile_columns;
  const int64_t fewer = loops::vectors_of_few_columns(f.vectors);
  const double fewer_part = std::min(1.0, static_cast<double>(fewer) / static_cast<double>(f.vectors) / kFewerSpeed);
  const double part = rest == 0 ? 0 : rest > fewer * lanes ? 1 : fewer_part;
  const double across = static_cast<double>(whole) + part;
  const int64_t left = rows % f.rows, least = (kLeastSums + f.vectors - 1) / f.vectors;
  const int64_t last = left == 0 ? 0 : s.exact_rows ? std::max(left, least) : round_up(left, f.rows / 2);
  const double tiles = static_cast<double>(rows - left + last) * across / static_cast<double>(f.rows);
  const auto inner = static_cast<double>(s.windows * s.inner);
  // loops::has_one_slice
  const bool together =
      s.windows > 1 && s.windows * s.inner <= (s.depth > 0 ? loops::kMatrixWindow : loops::kRegisterPiece);
  const auto slices = static_cast<double>(together ? 1 : s.windows * slices_of(s.inner, lanes));
  const double speed = s.apart == 0 || rows_fit_sets(f.rows, s.apart) ? f.speed : f.speed * kFarSpeed;
  const double multiply = tiles * static_cast<double>(f.rows * f.vectors) * inner * kMultiplyNs / speed;
  const double read = inner * (static_cast<double>(columns) * (s.panel > 0 ? kReadNs : kPackColumnNs) +
                               static_cast<double>(rows) * (s.apart > 0   ? kReadNs
                                                            : s.depth > 0 ? kCopyRowNs
                                                                          : kPackRowNs));
  const double slice = slices * tiles * static_cast<double>(f.rows) * kSliceRowNs;
  return multiply + read + slice + tiles * kTileNs + kItemNs;
}

// Calls fn for every way to divide the product into tiles of these forms. Where columns lie in panels, a tile has those
// of one panel.
template <class F>
void for_each_tiling(const Sizes& s, const Target& target, std::span<const Form> forms, F&& fn) {
  const int64_t lanes = lanes_of(target);
  const auto threads = static_cast<double>(std::max(1, target.threads));
  int64_t slice = std::min(most_slice(lanes), round_up(s.inner, lanes));
  if (s.depth > 0) slice = round_up(slice, std::lcm(lanes, s.depth));
  for (const Form& f : forms) {
    const int64_t columns = f.vectors * lanes;
    if (s.panel > 0 && s.panel != columns) continue;
    const int64_t row_bytes = std::min(s.inner, most_slice(lanes)) * int64_t{sizeof(float)};
    const int64_t most_rows = std::max(f.rows, std::min(kMostRowBlock, target.l2_bytes / 2 / row_bytes));
    const int64_t least_row_parts = (s.rows + most_rows - 1) / most_rows;
    const int64_t least_parts = (s.columns + kMostBlock - 1) / kMostBlock;
    for (int64_t row_parts = least_row_parts; row_parts < least_row_parts + kTriedRowParts; ++row_parts) {
      const int64_t row_block = round_up((s.rows + row_parts - 1) / row_parts, f.rows);
      for (int64_t parts = least_parts; parts < least_parts + kTriedParts; ++parts) {
        const int64_t block = round_up((s.columns + parts - 1) / parts, columns);
        const double items = static_cast<double>(s.products) *
                             std::ceil(static_cast<double>(s.rows) / static_cast<double>(row_block)) *
                             std::ceil(static_cast<double>(s.columns) / static_cast<double>(block));
        const double item = item_ns(f, s, std::min(row_block, s.rows), std::min(block, s.columns), lanes);
        const double ns = std::max(std::ceil(items / threads), items / threads + kLastItem) * item;
        Tiling tiling{{f.rows, columns, row_block, slice}, block, item, ns};
        tiling.tile.depth = s.depth;
        fn(tiling);
        if (block == columns) break;
      }
      if (row_block == f.rows) break;
    }
  }
}

// The fastest tiles. nullopt: there are none.
std::optional<Tiling> choose(const Sizes& s, const Target& target) {
  std::optional<Tiling> best;
  for_each_tiling(s, target, forms(target, s.depth > 0), [&](const Tiling& t) {
    if (!best || t.ns < best->ns * 0.999) best = t;
  });
  return best;
}

int64_t elements_of_step(DType element) { return RegisterTile{.pairs = element == DType::BF16}.elements_of_step(); }

}  // namespace

bool has_matrices(const Target& target) { return target.vector_bytes == 64 && has_feature(target, "amx-bf16"); }

bool computes_in_registers(DType element, int64_t rows, int64_t columns, int64_t inner, const Target& target) {
  const bool takes = element == DType::F32 || element == DType::BF16 || element == DType::F16;
  return target.device == DeviceType::CPU && takes && !forms(target, false).empty() && rows >= kLeastRows &&
         columns >= kLeastColumns && inner >= kLeastInner;
}

int64_t panel_of(DType element, int64_t rows, int64_t columns, int64_t inner, int64_t apart, const Target& target) {
  const int64_t each = elements_of_step(element);
  const int64_t depth = element == DType::BF16 && has_matrices(target) ? depth_of(inner / each) : 0;
  double best = 0;
  int64_t panel_columns = 0;
  for (const Form& f : forms(target, depth > 0)) {
    const int64_t panel = f.vectors * lanes_of(target);
    const auto tiling = choose({1, rows, columns, inner / each, 1, apart / each, panel, false, depth}, target);
    const double favour = panel == kUsualVectors * lanes_of(target) ? kUsualFavour : 1;
    if (const double ns = tiling->ns * favour; panel_columns == 0 || ns < best) {
      best = ns;
      panel_columns = panel;
    }
  }
  return panel_columns;
}

bool is_register_product(const graph::Node& node, const Target& target) {
  const auto operands = target.device == DeviceType::CPU ? loops::product_operands(node) : std::nullopt;
  if (!operands || node.prepacked || operands->row_scale || operands->column_scale) return false;
  const std::vector<Expr> sizes = loops::reduced_sizes(node);
  const size_t column = sizes.size() - operands->inner - 1;
  Expr inner = 1;
  for (size_t d = column + 1; d < sizes.size(); ++d) inner = inner * sizes[d];
  if (!sizes[column].is_constant() || !inner.is_constant()) return false;
  const DType element = operands->rows->type.dtype, result = node.results[0]->type.dtype;
  if (operands->columns->type.dtype != element || (result != element && result != DType::F32)) return false;
  // Columns that lie along an odd inner space are not read in pairs.
  const graph::TensorType& w = operands->columns->type;
  const size_t along = w.dim() - (operands->columns_last ? 2 : 1);
  if (!provably_divisible(sizes.back(), elements_of_step(element)) &&
      (operands->in_panels || w.strides[along].is_constant(1)))
    return false;
  const int64_t rows = hint_numel(std::span(sizes).first(column).subspan(operands->batch));
  // With one thread, oneDNN computes large products faster than a kernel that packs its columns in each call: measured
  // 0.62 to 1.12 of its speed. With 16 threads kernels have 1.08 to 1.80 of it.
  constexpr double kLarge = 1e8;  // operations
  const double operations = 2.0 * static_cast<double>(rows * sizes[column].constant() * inner.constant());
  if (element == DType::BF16 && has_matrices(target) && target.threads == 1 && !operands->in_panels &&
      result == element && operations >= kLarge)
    return false;
  return computes_in_registers(element, rows, sizes[column].constant(), inner.constant(), target);
}

namespace {

// Whether every index but this one runs through the ranges, in this order, as through one.
bool run_as_one(const loops::Dag& dag, const std::vector<Range>& ranges, Ref but) {
  bool one = true;
  dag.for_each_index([&](Ref r, Expr e) {
    for (size_t k = 0; one && r != but && k + 1 < ranges.size(); ++k) {
      const auto a = coefficient_of(e, ranges[k].var), b = coefficient_of(e, ranges[k + 1].var);
      one = a && b && *a == *b * ranges[k + 1].extent;
    }
  });
  return one;
}

bool is_plain_load(const Instr& i) { return i.kind == InstrKind::Load && i.in[0] == loops::kNoRef; }

// The range along which rows are packed. It is the longest one, unless the elements of another one are adjacent in
// memory and fill cache lines: packing along any other range reads one element from each cache line.
Range packed_range(const std::vector<Range>& ranges, const Instr& row) {
  constexpr int64_t kLine = 16;  // floats
  const auto value = [&](const Range& r) {
    const auto apart = is_plain_load(row) ? coefficient_of(row.index, r.var) : std::nullopt;
    return std::pair(apart && apart->is_constant(1) && hint(r.extent) >= kLine, hint(r.extent));
  };
  return *std::ranges::max_element(ranges, {}, value);
}

// The Inner ranges that together are the last one: where panels of BF16 have divided it into pairs, both parts of it.
std::vector<Range> last_inner(const std::vector<Range>& ranges, const Instr& row, bool of_bf16) {
  const Range& last = ranges.back();
  const Range& before = ranges[ranges.size() - 2];
  if (!of_bf16 || !last.extent.is_constant(2) || before.kind != RangeKind::Inner || !is_plain_load(row)) return {last};
  const auto apart = coefficient_of(row.index, before.var), along = coefficient_of(row.index, last.var);
  return apart && along && *apart == *along * 2 ? std::vector<Range>{before, last} : std::vector<Range>{last};
}

}  // namespace

std::optional<RegisterChoice> choose_registers(const loops::Dag& dag, const Target& target) {
  const std::vector<Range>& ranges = dag.ranges();
  const auto inner = static_cast<size_t>(
      std::count_if(ranges.begin(), ranges.end(), [](const Range& r) { return r.kind == RangeKind::Inner; }));
  if (inner < 1 || ranges.size() < inner + 2 || forms(target, false).empty()) return std::nullopt;
  const loops::Levels levels = loops::levels_of(dag);
  std::vector<Ref> loop;
  for (Ref r = 0; r < dag.instrs().size(); ++r) {
    const InstrKind kind = dag.instrs()[r].kind;
    if (!levels.live[r]) continue;
    if (kind == InstrKind::StoreAdd || kind == InstrKind::Indirect || kind == InstrKind::Scan) return std::nullopt;
    if (levels.inner[r] || kind == InstrKind::Accumulate) loop.push_back(r);
  }
  RegisterChoice out;
  const size_t last = ranges.size() - inner - 1;  // the last Parallel range
  const auto sum_of = [&](const Range& row, const Range& column) {
    return loops::register_sum(dag.instrs(), loop, row.var, column.var);
  };
  std::optional<loops::RegisterSum> sum;
  for (size_t d = 0; d < last; ++d)
    if (const auto found = sum_of(ranges[d], ranges[last])) {
      out.rows.push_back(ranges[d]);
      sum = found;
    }
  if (!sum) return std::nullopt;
  for (size_t d = 0; d < last; ++d)
    if (sum_of(out.rows[0], ranges[d])) out.columns.push_back(ranges[d]);
  out.columns.push_back(ranges[last]);
  // Rows whose elements lie together may begin anywhere. Others are packed along one range.
  const Instr &row = dag.instrs()[sum->row], &column = dag.instrs()[sum->column];
  const Expr inmost = ranges.back().var;
  const auto along = is_plain_load(row) ? coefficient_of(row.index, inmost) : std::nullopt;
  const bool together = along && along->is_constant(1);
  if (!together) out.rows = {packed_range(out.rows, row)};
  // Columns in panels are one range where a tile is a panel. Otherwise each panel is another product.
  out.inner = last_inner(ranges, row, sum->of_bf16);
  Expr elements = 1;
  for (const Range& r : out.inner) elements = elements * r.extent;
  // An odd window ends in half a step in each of its rows.
  const bool pairs =
      sum->of_bf16 && (inner == out.inner.size() ? elements.is_constant() : provably_divisible(elements, 2));
  const int64_t each = RegisterTile{.pairs = pairs}.elements_of_step();
  Sizes s{1, 1, 1, (hint(elements) + each - 1) / each, 1, 0, 0};
  if (pairs && has_matrices(target)) s.depth = depth_of(s.inner);
  if (const auto apart = coefficient_of(row.index, out.rows.back().var); together && apart)
    s.apart = hint(*apart) / each;
  const auto across = is_plain_load(column) ? coefficient_of(column.index, ranges[last].var) : std::nullopt;
  if (across && across->is_constant(each) && ranges[last].extent.is_constant() && out.columns.size() > 1 &&
      run_as_one(dag, out.columns, sum->column)) {
    s.panel = ranges[last].extent.constant();
  } else {
    out.columns = {ranges[last]};
    if (is_plain_load(column)) s.panel = loops::panel_columns(column.index, ranges[last].var);
  }
  const auto is_one_of = [](const std::vector<Range>& list, const Range& r) {
    return std::any_of(list.begin(), list.end(), [&](const Range& x) { return x.var == r.var; });
  };
  Expr rows = 1, columns = 1, products = 1;
  for (size_t d = 0; d < ranges.size(); ++d) {
    if (d > last && !ranges[d].extent.is_constant()) return std::nullopt;
    if (d > last && d + out.inner.size() < ranges.size()) s.windows *= ranges[d].extent.constant();
    if (d > last) continue;
    Expr& of = is_one_of(out.rows, ranges[d]) ? rows : is_one_of(out.columns, ranges[d]) ? columns : products;
    of = of * ranges[d].extent;
  }
  // A kernel for any number of rows should serve many.
  constexpr int64_t kManyRows = 64;
  s.rows = std::max(hint(rows), rows.is_constant() ? int64_t{1} : kManyRows);
  s.exact_rows = rows.is_constant();
  s.products = std::max<int64_t>(1, hint(products));
  s.columns = hint(columns);
  if (s.inner < 1 || s.columns < 1) return std::nullopt;
  auto tiling = choose(s, target);
  if (!tiling && s.panel > 0) {  // no tile is such a panel
    if (out.columns.size() > 1) {
      out.columns = {ranges[last]};
      products = products * floordiv(columns, s.panel);
      columns = s.panel;
      s.products *= s.columns / s.panel;
      s.columns = s.panel;
    }
    s.panel = 0;
    tiling = choose(s, target);
  }
  if (!tiling) return std::nullopt;
  out.tile = tiling->tile;
  out.tile.slice = out.tile.slice * Expr(each);
  out.tile.pairs = pairs;
  out.block = tiling->block;
  out.items = products * ceildiv(rows, out.tile.row_block) * ceildiv(columns, out.block);
  out.item_cost = static_cast<int64_t>(std::max(1.0, tiling->item_ns));
  out.us = tiling->ns / 1000;
  return out;
}

std::vector<RegisterTiling> register_tilings(const loops::Kernel& k, const Target& target) {
  constexpr size_t kOfForm = 3;
  const auto constant = [](const Range& r) { return r.extent.is_constant(); };
  if (!std::all_of(k.ranges.begin(), k.ranges.end(), constant)) return {};
  const loops::RegisterSum sum = *loops::register_sum(k);
  const int64_t each = k.registers.elements_of_step();
  const auto columns = static_cast<size_t>(k.vector);
  Sizes s{1, k.ranges[columns - 1].extent.constant(), k.ranges[columns].extent.constant(), 1, 1, 0, 0, true};
  for (size_t d = 0; d + 1 < columns; ++d) s.products *= k.ranges[d].extent.constant();
  for (size_t d = columns + 1; d + 1 < k.ranges.size(); ++d) s.windows *= k.ranges[d].extent.constant();
  s.inner = (k.ranges.back().extent.constant() + each - 1) / each;
  const auto apart = coefficient_of(k.instrs[sum.row].index, k.ranges[columns - 1].var);
  if (!k.registers.packs_rows && apart) s.apart = hint(*apart) / each;
  if (!k.registers.packs_columns) s.panel = k.registers.columns;
  s.depth = k.registers.depth;
  std::vector<Tiling> found;
  for (const Form& f : all_forms(target, s.depth > 0)) {
    std::vector<Tiling> of_form;
    for_each_tiling(s, target, std::span(&f, 1), [&](const Tiling& t) {
      const auto is_same = [&](const Tiling& o) { return o.block == t.block && o.tile.row_block == t.tile.row_block; };
      if (std::ranges::none_of(of_form, is_same)) of_form.push_back(t);  // blocks are rounded up to whole tiles
    });
    std::ranges::stable_sort(of_form, {}, &Tiling::ns);
    if (of_form.size() > kOfForm) of_form.resize(kOfForm);
    found.insert(found.end(), of_form.begin(), of_form.end());
  }
  std::ranges::stable_sort(found, {}, &Tiling::ns);
  std::vector<RegisterTiling> out;
  for (Tiling& t : found) {
    t.tile.slice = t.tile.slice * Expr(each);
    t.tile.pairs = k.registers.pairs;
    out.push_back({t.tile, t.block});
  }
  return out;
}

void choose_packing(loops::Kernel& k) {
  constexpr int64_t kNearRows = 256;  // steps from one vector of columns to the next that need no copy
  // Tiles of columns of a work item from which on rows are copied for registers for matrices, so that the rows of an
  // instruction lie together: 1.1 to 1.4 times as fast (measured with 16 threads).
  constexpr int64_t kCopiedFrom = 4;
  const loops::RegisterSum sum = *loops::register_sum(k);
  RegisterTile& t = k.registers;
  t.packs_rows = !loops::reads_rows_in_place(k, sum);
  if (t.depth > 0)
    t.packs_rows =
        t.packs_rows || loops::matrices_need_packed_rows(k, sum) || provably_at_least(k.block, kCopiedFrom * t.columns);
  t.packs_columns = !loops::reads_columns_in_place(k, sum) ||
                    !provably_at_least(kNearRows * t.elements_of_step(), *loops::step_of_columns(k, sum));
}

}  // namespace vesta::schedule
