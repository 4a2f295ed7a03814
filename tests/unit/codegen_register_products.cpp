// Matrix products whose sums are in registers (loops/register_product.h), against the interpreter.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "codegen_run.h"

namespace vesta::codegen::testing {
namespace {

struct Case {
  int64_t rows, columns, inner;
  int64_t tile_rows, tile_vectors;
  int64_t row_block, blocks;  // rows of a work item; tiles of columns of a work item
  int64_t slice;              // in vectors
};

struct Form {
  bool rows_along_inner, columns_along_inner;
  bool packs_rows, packs_columns;
};

std::string with_sizes(const std::string& pattern, const Case& c, const std::string& rows) {
  const int64_t lanes = host_lanes();
  const auto n = [](int64_t v) { return std::to_string(v); };
  return text(pattern, {{"LANES", n(lanes)},
                        {"BLOCK", n(c.blocks * c.tile_vectors * lanes)},
                        {"SLICE", n(c.slice * lanes)},
                        {"TR", n(c.tile_rows)},
                        {"TC", n(c.tile_vectors * lanes)},
                        {"RB", n(c.row_block)},
                        {"M", rows},
                        {"N", n(c.columns)},
                        {"K", n(c.inner)}});
}

// relu(x w^T + bias) + y, in place in y.
std::unique_ptr<loops::Kernel> kernel_of(const Case& c, const Form& f, bool symbolic) {
  const std::string pattern = R"(kernel
SIZErange p0 parallel M
range p1 parallel N
range r0 inner K
vector p1 lanes LANES
block BLOCK
registers TR by TC rows RB slice SLICE PACKS
buffer b0 f32 read
buffer b1 f32 read
buffer b2 f32 read
buffer b3 f32 write
stage
  %0 = load f32 b2[p1]
stage loop
  %1 = load f32 b0[ROW]
  %2 = load f32 b1[COLUMN]
  %3 = mul f32 %1 %2
  %4 = accumulate f32 sum %3
stage
  %5 = result f32 %4
  %6 = add f32 %5 %0
  %7 = const f32 0
  %8 = max f32 %6 %7
  %9 = load f32 b3[p1 + N*p0]
  %10 = add f32 %8 %9
  store f32 b3[p1 + N*p0] %10
)";
  const std::string operands = text(
      pattern, {{"SIZE", symbolic ? "size s0\n" : ""},
                {"ROW", f.rows_along_inner ? "r0 + K*p0"
                        : symbolic         ? "p0 + s0*r0"
                                           : "p0 + M*r0"},
                {"COLUMN", f.columns_along_inner ? "r0 + K*p1" : "p1 + N*r0"},
                {"PACKS", std::string(f.packs_rows ? " packs rows" : "") + (f.packs_columns ? " packs columns" : "")}});
  return loops::parse_kernel(with_sizes(operands, c, symbolic ? "s0" : std::to_string(c.rows)));
}

// The product x w^T of a weight in panels; a tile has the columns of one panel.
std::unique_ptr<loops::Kernel> panels_of(const Case& c, bool packs) {
  const std::string whole = std::to_string(c.inner * c.tile_vectors * host_lanes());
  const std::string operands = text(R"(kernel
range p0 parallel M
range p1 parallel N
range r0 inner K
vector p1 lanes LANES
block BLOCK
registers TR by TC rows RB slice SLICE PACKS
buffer b0 f32 read
buffer b1 f32 read
buffer b2 f32 write
stage loop
  %0 = load f32 b0[r0 + K*p0]
  %1 = load f32 b1[(p1 % TC) + TC*r0 + WHOLE*(p1 // TC)]
  %2 = mul f32 %0 %1
  %3 = accumulate f32 sum %2
stage
  %4 = result f32 %3
  store f32 b2[p1 + N*p0] %4
)",
                                    {{"PACKS", packs ? "packs columns" : ""}, {"WHOLE", whole}});
  return loops::parse_kernel(with_sizes(operands, c, std::to_string(c.rows)));
}

void expect_product(const Case& c, const Form& f, bool symbolic = false) {
  SCOPED_TRACE(fmt::format("{} x {} x {}, tiles of {} by {} vectors, {} {} {} {}", c.rows, c.columns, c.inner,
                           c.tile_rows, c.tile_vectors, f.rows_along_inner, f.columns_along_inner, f.packs_rows,
                           f.packs_columns));
  const std::vector<int64_t> sizes = symbolic ? std::vector<int64_t>{c.rows} : std::vector<int64_t>();
  // Sums of products up to 16 in another order.
  const double error = 16.0 * static_cast<double>(c.inner) * 0x1p-24;
  expect_same(*kernel_of(c, f, symbolic),
              {random_array(DType::F32, c.rows * c.inner, 1), random_array(DType::F32, c.columns * c.inner, 2),
               random_array(DType::F32, c.columns, 3), random_array(DType::F32, c.rows * c.columns, 4)},
              sizes, 8, error);
}

constexpr Form kForms[] = {{true, true, false, true}, {true, true, true, true},   {true, false, false, true},
                           {true, false, true, true}, {false, false, true, true}, {false, true, true, true}};

TEST(RegisterProducts, EveryFormOfOperands) {
  for (const Form& f : kForms) {
    expect_product({16, 4 * host_lanes(), 4 * host_lanes(), 4, 2, 8, 2, 4}, f);
    expect_product({13, 2 * host_lanes() + 3, 2 * host_lanes() + 5, 6, 2, 12, 1, 1}, f);
    expect_product({13, 2 * host_lanes() + 3, 2 * host_lanes() + 5, 6, 2, 12, 1, 1}, f, true);
  }
}

// Operands of other types are packed as F32. `in_panels`: the columns lie in panels, one of which a tile has.
void expect_converted(const Case& c, const Form& f, DType type, bool in_panels) {
  SCOPED_TRACE(fmt::format("{} {} x {} x {}, {} {} {}", name(type), c.rows, c.columns, c.inner, f.rows_along_inner,
                           f.columns_along_inner, in_panels));
  const int64_t tile = c.tile_vectors * host_lanes(), whole = (c.columns + tile - 1) / tile * tile;
  const std::string operands = text(R"(kernel
range p0 parallel M
range p1 parallel N
range r0 inner K
vector p1 lanes LANES
block BLOCK
registers TR by TC rows RB slice SLICE packs rows packs columns
buffer b0 TYPE read
buffer b1 TYPE read
buffer b2 f32 write
stage loop
  %0 = load TYPE b0[ROW]
  %1 = cast f32 %0
  %2 = load TYPE b1[COLUMN]
  %3 = cast f32 %2
  %4 = mul f32 %1 %3
  %5 = accumulate f32 sum %4
stage
  %6 = result f32 %5
  store f32 b2[p1 + N*p0] %6
)",
                                    {{"TYPE", std::string(name(type))},
                                     {"ROW", f.rows_along_inner ? "r0 + K*p0" : "p0 + M*r0"},
                                     {"COLUMN", in_panels               ? "(p1 % TC) + TC*r0 + K*TC*(p1 // TC)"
                                                : f.columns_along_inner ? "r0 + K*p1"
                                                                        : "p1 + N*r0"}});
  const double error = 16.0 * static_cast<double>(c.inner) * 0x1p-24 * (type == DType::I8 ? 1024 : 1);
  expect_same(*loops::parse_kernel(with_sizes(operands, c, std::to_string(c.rows))),
              {random_array(type, c.rows * c.inner, 1), random_array(type, whole * c.inner, 2),
               random_array(DType::F32, c.rows * c.columns, 3)},
              {}, 8, error);
}

TEST(RegisterProducts, OperandsOfOtherTypes) {
  const int64_t lanes = host_lanes();
  for (const DType type : {DType::F16, DType::I8})
    for (const Form& f : kForms)
      for (const bool in_panels : {false, true}) {
        expect_converted({16, 4 * lanes, 4 * lanes, 4, 2, 8, 2, 4}, f, type, in_panels);
        expect_converted({13, 2 * lanes + 3, 2 * lanes + 5, 6, 2, 12, 1, 1}, f, type, in_panels);
        expect_converted({3, lanes - 1, lanes - 3, 4, 1, 4, 1, 1}, f, type, in_panels);
      }
}

TEST(RegisterProducts, ColumnsThatAreReadInPlace) {
  const int64_t lanes = host_lanes();
  for (const bool packs : {false, true}) {
    expect_product({9, 4 * lanes, 40, 4, 2, 8, 1, 40 / lanes + 1}, {true, false, packs, false});
    expect_product({9, 4 * lanes, 300, 4, 2, 8, 2, 2}, {true, false, packs, false}, true);
  }
}

// The LLVM IR of a kernel of this text.
std::string code_of(const std::string& text) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / fmt::format("code_of_product_{}", getpid());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  CompileOptions options;
  options.dump_dir = folder.string();
  compile(std::vector<Request>{{text, "product"}}, host_target(), options);
  std::ifstream in(folder / "product.ll");
  return {std::istreambuf_iterator<char>(in), {}};
}

// Tiles fetch the next panel.
TEST(RegisterProducts, PanelsAreFetchedAhead) {
  const int64_t lanes = host_lanes();
  // Whether the kernel passes a mask other than -1 to its micro-kernels. With -1 they prefetch nothing that is used.
  const auto fetches = [&](const Case& c, bool packs) {
    const std::string code = code_of(loops::print(*panels_of(c, packs)));
    EXPECT_NE(code.find("call void getelementptr"), std::string::npos) << code;
    return code.find(", i64 -1)") == std::string::npos;
  };
  const Case one_slice{9, 4 * lanes, 4 * lanes, 4, 2, 8, 2, 4}, slices{9, 4 * lanes, 4 * lanes, 4, 2, 8, 2, 1};
  EXPECT_TRUE(fetches(one_slice, false));
  EXPECT_TRUE(fetches(slices, false));
  EXPECT_FALSE(fetches(slices, true));  // the panels are copies in the work item's scratch
  for (const int64_t rows : {1, 9, 64}) {
    Case c = slices;
    c.rows = rows;
    c.row_block = 24;
    const double error = 16.0 * static_cast<double>(c.inner) * 0x1p-24;
    expect_same(*panels_of(c, false),
                {random_array(DType::F32, c.rows * c.inner, 1), random_array(DType::F32, c.columns * c.inner, 2),
                 make_array(DType::F32, c.rows * c.columns)},
                {}, 8, error);
  }
}

// What is added to a tile's sums is fetched while they are computed.
TEST(RegisterProducts, OperandsOfTheStagesAfterTheSumAreFetched) {
  const Case c{9, 4 * host_lanes(), 4 * host_lanes(), 4, 2, 8, 2, 4};
  const auto fetches = [](const loops::Kernel& k) {
    return code_of(loops::print(k)).find("call void @llvm.prefetch") != std::string::npos;
  };
  EXPECT_TRUE(fetches(*kernel_of(c, {true, false, false, false}, false)));
  EXPECT_FALSE(fetches(*panels_of(c, false)));  // adds nothing
}

TEST(RegisterProducts, TailsOfEverySize) {
  const int64_t lanes = host_lanes();
  for (int64_t rows = 1; rows <= 9; ++rows) expect_product({rows, lanes, 17, 4, 1, 8, 1, 2}, kForms[0]);
  for (int64_t columns = 1; columns <= 2 * lanes + 1; ++columns)
    for (const Form& f : {kForms[0], kForms[2]}) expect_product({5, columns, 20, 4, 2, 4, 1, 2}, f);
  // Some vectors of the last tile have no columns.
  for (int64_t columns = 1; columns <= 4 * lanes; columns += 3)
    for (const int64_t vectors : {2, 3, 4}) {
      const Case c{9, columns, 20, 4, vectors, 8, vectors, 3};
      expect_product(c, kForms[0]);
      const int64_t panels = (columns + vectors * lanes - 1) / (vectors * lanes);
      if (panels == 1) continue;
      expect_same(
          *panels_of(c, false),
          {random_array(DType::F32, c.rows * c.inner, 1),
           random_array(DType::F32, panels * vectors * lanes * c.inner, 2), make_array(DType::F32, c.rows * c.columns)},
          {}, 8, 16.0 * static_cast<double>(c.inner) * 0x1p-24);
    }
  for (int64_t inner = 1; inner <= 2 * lanes + 1; ++inner)
    for (const Form& f : {kForms[1], kForms[4]}) expect_product({5, lanes + 1, inner, 4, 1, 8, 1, 1}, f);
}

TEST(RegisterProducts, ManySlicesAndPieces) {
  for (const Form& f : kForms) expect_product({10, host_lanes() + 1, 900, 4, 1, 8, 1, 400 / host_lanes()}, f);
}

TEST(RegisterProducts, NoRows) { expect_product({0, 8, 8, 4, 1, 8, 1, 8}, kForms[0], true); }

// Operands that are computed, of other types, and products beside each other; half types are stored.
TEST(RegisterProducts, ComputedOperands) {
  const int64_t lanes = host_lanes();
  const std::string pattern = R"(kernel
range p0 parallel 3
range p1 parallel 7
range p2 parallel N
range r0 inner 19
vector p2 lanes LANES
block LANES
registers 4 by LANES rows 4 slice 32 packs rows packs columns
buffer b0 bf16 read
buffer b1 f32 read
buffer b2 f16 read
buffer b3 bf16 write
stage
  %0 = load f32 b1[p1]
stage loop
  %1 = load bf16 b0[r0 + 19*p1 + 133*p0]
  %2 = cast f32 %1
  %3 = mul f32 %2 %0
  %4 = load f16 b2[p2 + N*r0 + 19*N*p0]
  %5 = cast f32 %4
  %6 = exp f32 %5
  %7 = mul f32 %3 %6
  %8 = accumulate f32 sum %7
stage
  %9 = result f32 %8
  %10 = cast bf16 %9
  store bf16 b3[p2 + N*p1 + 7*N*p0] %10
)";
  for (const int64_t columns : {lanes, lanes + 3, int64_t{5}}) {
    const auto k = loops::parse_kernel(text(pattern, {{"19*N", std::to_string(19 * columns)},
                                                      {"7*N", std::to_string(7 * columns)},
                                                      {"LANES", std::to_string(lanes)},
                                                      {"N", std::to_string(columns)}}));
    expect_same(*k,
                {random_array(DType::BF16, 3 * 7 * 19, 1), random_array(DType::F32, 7, 2),
                 random_array(DType::F16, 3 * 19 * columns, 3), random_array(DType::BF16, 3 * 7 * columns, 4)},
                {}, 2, 1e-3);
  }
}

// A convolution of 3 x 3 pixels with stride S: rows are pixels, whose windows are read in place. Columns lie in panels.
// A tile runs through the rows of its windows where a slice has the whole of one.
TEST(RegisterProducts, WindowsOfPixels) {
  const int64_t lanes = host_lanes();
  const std::string pattern = R"(kernel
SIZErange p0 parallel M
range p1 parallel N
range i0 inner 3
range i1 inner RUN
vector p1 lanes LANES
block BLOCK
registers TR by LANES rows RB slice SLICE
buffer b0 f32 read
buffer b1 f32 read
buffer b2 f32 write
stage loop
  %0 = load f32 b0[S*C*((p0) % (W)) + S*PITCH*((p0) // (W)) + PITCH*i0 + i1]
  %1 = load f32 b1[LANES*i1 + LANES*RUN*i0 + 3*RUN*LANES*((p1) // (LANES)) + (p1) % (LANES)]
  %2 = mul f32 %0 %1
  %3 = accumulate f32 sum %2
stage
  %4 = result f32 %3
  store f32 b2[p1 + N*p0] %4
)";
  const auto n = [](int64_t v) { return std::to_string(v); };
  constexpr int64_t kChannels = 7, kWidth = 5;  // of the result
  for (const int64_t stride : {1, 2})
    for (const int64_t height : {1, 3, 4})
      for (const int64_t tile : {2, 3, 4})
        for (const auto& [symbolic, slice] :
             {std::pair(false, lanes), {true, lanes}, {false, 3 * lanes}, {true, 3 * lanes}}) {
          // Of the last panel, some columns are missing where the tile is odd.
          const int64_t columns = 3 * lanes - (tile % 2 ? 2 : 0);
          SCOPED_TRACE(fmt::format("stride {}, {} rows, tiles of {}, {}, {}", stride, height, tile, symbolic, slice));
          const int64_t rows = height * kWidth, pitch = (stride * (kWidth - 1) + 3) * kChannels;
          const int64_t run = 3 * kChannels;
          const auto k = loops::parse_kernel(text(pattern, {{"SIZE", symbolic ? "size s0\n" : ""},
                                                            {"3*RUN*LANES", n(3 * run * lanes)},
                                                            {"LANES*RUN", n(lanes * run)},
                                                            {"S*PITCH", n(stride * pitch)},
                                                            {"S*C", n(stride * kChannels)},
                                                            {"PITCH", n(pitch)},
                                                            {"BLOCK", n(2 * lanes)},
                                                            {"SLICE", n(slice)},
                                                            {"LANES", n(lanes)},
                                                            {"RUN", n(run)},
                                                            {"TR", n(tile)},
                                                            {"RB", n(2 * tile)},
                                                            {"M", symbolic ? "s0" : n(rows)},
                                                            {"N", n(columns)},
                                                            {"W", n(kWidth)}}));
          const std::vector<int64_t> sizes = symbolic ? std::vector<int64_t>{rows} : std::vector<int64_t>();
          expect_same(*k,
                      {random_array(DType::F32, pitch * (stride * (height - 1) + 3), 1),
                       random_array(DType::F32, 3 * lanes * 3 * run, 2), random_array(DType::F32, rows * columns, 3)},
                      sizes, 4, 1e-4);
        }
}

TEST(RegisterProducts, NotANumberAndInfinity) {
  const Case c{6, host_lanes() + 2, 40, 4, 1, 8, 1, 4};
  Array rows = random_array(DType::F32, c.rows * c.inner, 1);
  rows.set(7, loops::from_double(DType::F32, NAN));
  rows.set(2 * c.inner + 3, loops::from_double(DType::F32, INFINITY));
  rows.set(4 * c.inner, loops::from_double(DType::F32, -INFINITY));
  for (const Form& f : {kForms[0], kForms[2]})
    expect_same(*kernel_of(c, f, false),
                {rows, random_array(DType::F32, c.columns * c.inner, 2), random_array(DType::F32, c.columns, 3),
                 random_array(DType::F32, c.rows * c.columns, 4)},
                {}, 8, 1e-3);
}

// Tiles that do not fit the registers, or operands that cannot be read where they are.
TEST(RegisterProducts, KernelsThatDoNotVerify) {
  const Case c{8, host_lanes(), 8, 4, 1, 8, 1, 8};
  EXPECT_NO_THROW(loops::verify(*kernel_of(c, kForms[0], false)));
  EXPECT_THROW(loops::verify(*kernel_of(c, {true, true, false, false}, false)), Error);
  EXPECT_THROW(loops::verify(*kernel_of(c, {false, true, false, true}, false)), Error);
  EXPECT_THROW(loops::verify(*kernel_of({8, 4, 8, 32, 1, 32, 1, 8}, kForms[0], false)), Error);
  EXPECT_THROW(loops::verify(*kernel_of({8, 4, 8, 4, 1, 6, 1, 8}, kForms[0], false)), Error);
}

}  // namespace
}  // namespace vesta::codegen::testing
