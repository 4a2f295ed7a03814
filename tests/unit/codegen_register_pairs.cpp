// Products of BF16 whose sums are in registers, two inner elements at a time (RegisterTile::pairs), against the
// interpreter: with the processor's instruction for them, and without.
#include "base/check.h"
#include "codegen_run.h"

namespace vesta::codegen::testing {
namespace {

struct Case {
  int64_t rows, columns, inner;
  int64_t tile_rows, tile_vectors;
  int64_t row_block, blocks;  // rows of a work item; tiles of columns of a work item
  int64_t slice;              // in vectors of pairs
};

enum class Rows { AlongInner, Across };
enum class Columns { AlongInner, Across, InPanels };

struct Form {
  Rows rows;
  Columns columns;
  bool packs_rows, packs_columns;
};

// relu(x w^T + bias) + y, in place in y. Panels have the columns of a tile; the last one may lack some.
std::unique_ptr<loops::Kernel> kernel_of(const Case& c, const Form& f, bool symbolic = false) {
  const std::string pattern = R"(kernel
SIZErange p0 parallel M
range p1 parallel N
range r0 inner K
vector p1 lanes LANES
block BLOCK
registers TR by TC rows RB slice SLICE pairs PACKS
buffer b0 bf16 read
buffer b1 bf16 read
buffer b2 f32 read
buffer b3 bf16 write
stage
  %0 = load f32 b2[p1]
stage loop
  %1 = load bf16 b0[ROW]
  %2 = cast f32 %1
  %3 = load bf16 b1[COLUMN]
  %4 = cast f32 %3
  %5 = mul f32 %2 %4
  %6 = accumulate f32 sum %5
stage
  %7 = result f32 %6
  %8 = add f32 %7 %0
  %9 = const f32 0
  %10 = max f32 %8 %9
  %11 = load bf16 b3[p1 + N*p0]
  %12 = cast f32 %11
  %13 = add f32 %10 %12
  %14 = cast bf16 %13
  store bf16 b3[p1 + N*p0] %14
)";
  const auto n = [](int64_t v) { return std::to_string(v); };
  const int64_t lanes = host_lanes(), panel = c.tile_vectors * lanes;
  const std::string in_panels = "((r0) % (2)) + 2*((p1) % (TC)) + TWICE*((r0) // (2)) + WHOLE*((p1) // (TC))";
  return loops::parse_kernel(text(
      pattern, {{"SIZE", symbolic ? "size s0\n" : ""},
                {"ROW", f.rows == Rows::AlongInner ? "r0 + K*p0"
                        : symbolic                 ? "p0 + s0*r0"
                                                   : "p0 + M*r0"},
                {"COLUMN", f.columns == Columns::AlongInner ? "r0 + K*p1"
                           : f.columns == Columns::Across   ? "p1 + N*r0"
                                                            : in_panels},
                {"PACKS", std::string(f.packs_rows ? " packs rows" : "") + (f.packs_columns ? " packs columns" : "")},
                {"LANES", n(lanes)},
                {"BLOCK", n(c.blocks * panel)},
                {"SLICE", n(2 * c.slice * lanes)},
                {"TWICE", n(2 * panel)},
                {"WHOLE", n(panel * c.inner)},
                {"TR", n(c.tile_rows)},
                {"TC", n(panel)},
                {"RB", n(c.row_block)},
                {"M", symbolic ? "s0" : n(c.rows)},
                {"N", n(c.columns)},
                {"K", n(c.inner)}}));
}

// This machine, and this machine without the instruction for pairs.
std::vector<Target> targets() {
  Target without = host_target();
  const std::string has = "+avx512bf16";
  if (const size_t at = without.features.find(has); at != std::string::npos) without.features[at] = '-';
  return {host_target(), without};
}

void expect_product(const Case& c, const Form& f, bool symbolic = false, Array rows = {}) {
  SCOPED_TRACE(fmt::format("{} x {} x {}, tiles of {} by {} vectors, rows {}, columns {}, packs {} {}", c.rows,
                           c.columns, c.inner, c.tile_rows, c.tile_vectors, static_cast<int>(f.rows),
                           static_cast<int>(f.columns), f.packs_rows, f.packs_columns));
  const std::vector<int64_t> sizes = symbolic ? std::vector<int64_t>{c.rows} : std::vector<int64_t>();
  const int64_t panel = c.tile_vectors * host_lanes();
  const int64_t columns = f.columns == Columns::InPanels ? (c.columns + panel - 1) / panel * panel : c.columns;
  if (rows.size() == 0) rows = random_array(DType::BF16, c.rows * c.inner, 1);
  // Sums of products up to 16 in another order, and a rounding of the result.
  const double error = 16.0 * static_cast<double>(c.inner) * 0x1p-24;
  for (const Target& target : targets())
    expect_same(*kernel_of(c, f, symbolic),
                {rows, random_array(DType::BF16, columns * c.inner, 2), random_array(DType::F32, c.columns, 3),
                 random_array(DType::BF16, c.rows * c.columns, 4)},
                sizes, 1, error, target);
}

constexpr Form kForms[] = {
    {Rows::AlongInner, Columns::AlongInner, false, true}, {Rows::AlongInner, Columns::AlongInner, true, true},
    {Rows::AlongInner, Columns::Across, false, true},     {Rows::AlongInner, Columns::Across, true, true},
    {Rows::Across, Columns::Across, true, true},          {Rows::Across, Columns::AlongInner, true, true},
    {Rows::AlongInner, Columns::InPanels, false, false},  {Rows::Across, Columns::InPanels, true, false},
};

TEST(RegisterPairs, EveryFormOfOperands) {
  for (const Form& f : kForms) {
    expect_product({16, 4 * host_lanes(), 8 * host_lanes(), 4, 2, 8, 2, 4}, f);
    expect_product({13, 2 * host_lanes() + 3, 4 * host_lanes() + 6, 6, 2, 12, 1, 1}, f);
    expect_product({13, 2 * host_lanes() + 3, 4 * host_lanes() + 6, 6, 2, 12, 1, 1}, f, true);
  }
}

TEST(RegisterPairs, TailsOfEverySize) {
  const int64_t lanes = host_lanes();
  for (const Form& f : {kForms[0], kForms[2], kForms[6]}) {
    for (int64_t rows = 0; rows <= 9; ++rows) expect_product({rows, 2 * lanes, 18, 4, 1, 8, 1, 1}, f);
    // The verifier finds the panels of columns that fill more than one.
    const int64_t least = f.columns == Columns::InPanels ? 2 * lanes : 1;
    for (int64_t columns = least; columns <= 4 * lanes + 1; ++columns)
      expect_product({5, columns, 20, 4, 2, 4, 1, 2}, f);
  }
  for (int64_t inner = 2; inner <= 4 * lanes + 2; inner += 2)
    for (const Form& f : {kForms[0], kForms[4], kForms[6]}) {
      if (inner == 2 && f.columns == Columns::InPanels) continue;  // all panels together are one run of columns
      expect_product({5, lanes + 1, inner, 4, 1, 8, 1, 1}, f);
    }
}

// The last element of an odd inner space has no second one. What lies beside it in memory counts nothing, even if it is
// no number.
TEST(RegisterPairs, OddInnerSpaces) {
  const int64_t lanes = host_lanes();
  for (size_t f = 0; f < 6; ++f) {
    for (int64_t inner = 1; inner <= 4 * lanes + 3; inner += 2) {
      const Case c{5, lanes + 1, inner, 4, 1, 8, 1, 1};
      Array rows = random_array(DType::BF16, c.rows * c.inner, 1);
      expect_product(c, kForms[f], false, rows);
      if (kForms[f].rows == Rows::AlongInner && inner > 1)
        rows.set(c.inner, loops::from_double(DType::BF16, NAN));  // the first element of the second row
      expect_product(c, kForms[f], false, rows);
    }
    expect_product({10, lanes + 1, 1801, 4, 1, 8, 1, 400 / lanes}, kForms[f]);
    expect_product({10, lanes + 1, 1801, 4, 1, 8, 1, 400 / lanes}, kForms[f], true);
  }
}

TEST(RegisterPairs, ManySlicesAndPieces) {
  for (const Form& f : kForms) expect_product({10, host_lanes() + 1, 1800, 4, 1, 8, 1, 400 / host_lanes()}, f);
}

TEST(RegisterPairs, NotANumberAndInfinity) {
  const Case c{6, host_lanes() + 2, 40, 4, 1, 8, 1, 4};
  Array rows = random_array(DType::BF16, c.rows * c.inner, 1);
  rows.set(7, loops::from_double(DType::BF16, NAN));
  rows.set(2 * c.inner + 3, loops::from_double(DType::BF16, INFINITY));
  rows.set(4 * c.inner, loops::from_double(DType::BF16, -INFINITY));
  for (const Form& f : {kForms[0], kForms[2], kForms[6]}) expect_product(c, f, false, rows);
}

// A convolution of 3 x 3 pixels with stride S: a row of a window is a run of elements, which begins an even number of
// elements after the one before. A tile runs through the rows of its windows where a slice has the whole of one.
TEST(RegisterPairs, WindowsOfPixels) {
  const int64_t lanes = host_lanes();
  const std::string pattern = R"(kernel
range p0 parallel M
range p1 parallel N
range i0 inner 3
range i1 inner RUN
vector p1 lanes LANES
block BLOCK
registers TR by LANES rows RB slice SLICE pairs
buffer b0 bf16 read
buffer b1 bf16 read
buffer b2 f32 write
stage loop
  %0 = load bf16 b0[S*C*((p0) % (W)) + S*PITCH*((p0) // (W)) + PITCH*i0 + i1]
  %1 = cast f32 %0
  %2 = load bf16 b1[TWICE*((i1) // (2)) + (i1) % (2) + LANES*RUN*i0 + 3*RUN*LANES*((p1) // (LANES)) + 2*((p1) % (LANES))]
  %3 = cast f32 %2
  %4 = mul f32 %1 %3
  %5 = accumulate f32 sum %4
stage
  %6 = result f32 %5
  store f32 b2[p1 + N*p0] %6
)";
  const auto n = [](int64_t v) { return std::to_string(v); };
  constexpr int64_t kChannels = 6, kWidth = 5;  // of the result
  for (const int64_t stride : {1, 2})
    for (const int64_t height : {1, 3, 4})
      for (const int64_t tile : {2, 3})
        for (const int64_t slice : {lanes, 3 * lanes}) {
          // Of the last panel, some columns are missing where the tile is odd.
          const int64_t columns = 3 * lanes - (tile % 2 ? 2 : 0);
          SCOPED_TRACE(fmt::format("stride {}, {} rows, tiles of {}, slices of {}", stride, height, tile, slice));
          const int64_t rows = height * kWidth, pitch = (stride * (kWidth - 1) + 3) * kChannels;
          const int64_t run = 3 * kChannels;
          const auto k = loops::parse_kernel(text(pattern, {{"3*RUN*LANES", n(3 * run * lanes)},
                                                            {"LANES*RUN", n(lanes * run)},
                                                            {"TWICE", n(2 * lanes)},
                                                            {"S*PITCH", n(stride * pitch)},
                                                            {"S*C", n(stride * kChannels)},
                                                            {"PITCH", n(pitch)},
                                                            {"BLOCK", n(2 * lanes)},
                                                            {"SLICE", n(2 * slice)},
                                                            {"LANES", n(lanes)},
                                                            {"RUN", n(run)},
                                                            {"TR", n(tile)},
                                                            {"RB", n(2 * tile)},
                                                            {"M", n(rows)},
                                                            {"N", n(columns)},
                                                            {"W", n(kWidth)}}));
          for (const Target& target : targets())
            expect_same(
                *k,
                {random_array(DType::BF16, pitch * (stride * (height - 1) + 3), 1),
                 random_array(DType::BF16, 3 * lanes * 3 * run, 2), random_array(DType::F32, rows * columns, 3)},
                {}, 4, 1e-4, target);
        }
}

TEST(RegisterPairs, KernelsThatDoNotVerify) {
  const Case c{8, host_lanes(), 8, 4, 1, 8, 1, 8};
  EXPECT_NO_THROW(loops::verify(*kernel_of(c, kForms[0])));
  Case odd = c;
  odd.inner = 7;
  EXPECT_NO_THROW(loops::verify(*kernel_of(odd, kForms[0])));
  EXPECT_THROW(loops::verify(*kernel_of(odd, kForms[6])), Error);
  Form apart = kForms[2];  // the elements of a column's pair are not neighbours
  apart.packs_columns = false;
  EXPECT_THROW(loops::verify(*kernel_of(c, apart)), Error);
  std::string of_floats = loops::print(*kernel_of(c, kForms[0]));
  for (const char* from : {"buffer b0 bf16", "load bf16 b0"})
    of_floats.replace(of_floats.find(from), std::string_view(from).size(), text(from, {{"bf16", "f32"}}));
  EXPECT_THROW(loops::verify(*loops::parse_kernel(of_floats)), Error);
}

}  // namespace
}  // namespace vesta::codegen::testing
