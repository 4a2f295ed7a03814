// Products of BF16 whose sums are in registers for matrices (RegisterTile::depth), against the interpreter where the
// CPU has them. Everywhere: the code of such kernels.
#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "codegen_run.h"
#include "loops/register_product.h"

namespace vesta::codegen::testing {
namespace {

constexpr int64_t kLanes = loops::kMatrixColumns;

struct Case {
  int64_t rows, columns, inner;
  int64_t matrices = 2, vectors = 2;   // of a tile: registers of rows, and of columns
  int64_t row_block = 64, blocks = 2;  // rows of a work item; tiles of columns of a work item
  int64_t slice = 256, depth = 16;     // inner elements; steps
};

enum class Rows { AlongInner, Apart, Across };  // Apart: there is a gap between rows
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
vector p1 lanes 16
block BLOCK
registers TR by TC rows RB slice SLICE pairs matrix DEPTHPACKS
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
  const int64_t panel = c.vectors * kLanes;
  const std::string in_panels = "((r0) % (2)) + 2*((p1) % (TC)) + TWICE*((r0) // (2)) + WHOLE*((p1) // (TC))";
  return loops::parse_kernel(text(
      pattern, {{"SIZE", symbolic ? "size s0\n" : ""},
                {"ROW", f.rows == Rows::AlongInner ? "r0 + K*p0"
                        : f.rows == Rows::Apart    ? "r0 + " + n(c.inner + 6) + "*p0"
                        : symbolic                 ? "p0 + s0*r0"
                                                   : "p0 + M*r0"},
                {"COLUMN", f.columns == Columns::AlongInner ? "r0 + K*p1"
                           : f.columns == Columns::Across   ? "p1 + N*r0"
                                                            : in_panels},
                {"PACKS", std::string(f.packs_rows ? " packs rows" : "") + (f.packs_columns ? " packs columns" : "")},
                {"BLOCK", n(c.blocks * panel)},
                {"DEPTH", n(c.depth)},
                {"SLICE", n(c.slice)},
                {"TWICE", n(2 * panel)},
                {"WHOLE", n(panel * c.inner)},
                {"TR", n(c.matrices * loops::kMatrixRows)},
                {"TC", n(panel)},
                {"RB", n(c.row_block)},
                {"M", symbolic ? "s0" : n(c.rows)},
                {"N", n(c.columns)},
                {"K", n(c.inner)}}));
}

bool has_matrices() { return has_feature(host_target(), "amx-bf16"); }

// A CPU that has registers for matrices.
Target matrix_target() {
  Target t = host_target();
  t.cpu = "sapphirerapids";
  t.features = "+amx-bf16,+amx-tile,+avx512bf16";
  t.vector_bytes = 64;
  t.avx512 = t.half_convert = t.fma = t.streaming_stores = true;
  return t;
}

class RegisterMatrices : public ::testing::Test {
  void SetUp() override {
    if (!has_matrices()) GTEST_SKIP() << "this machine has no AMX, or the system does not let this process use it";
  }
};

void expect_product(const Case& c, const Form& f, bool symbolic = false, Array rows = {}, Array columns = {}) {
  SCOPED_TRACE(
      fmt::format("{} x {} x {}, tiles of {} by {} registers, slices of {}, {} steps, rows {}, columns {}, "
                  "packs {} {}",
                  c.rows, c.columns, c.inner, c.matrices, c.vectors, c.slice, c.depth, static_cast<int>(f.rows),
                  static_cast<int>(f.columns), f.packs_rows, f.packs_columns));
  const std::vector<int64_t> sizes = symbolic ? std::vector<int64_t>{c.rows} : std::vector<int64_t>();
  const int64_t panel = c.vectors * kLanes;
  const int64_t padded = f.columns == Columns::InPanels ? (c.columns + panel - 1) / panel * panel : c.columns;
  const int64_t pitch = c.inner + (f.rows == Rows::Apart ? 6 : 0);
  if (rows.size() == 0) rows = random_array(DType::BF16, std::max<int64_t>(0, c.rows * pitch - (pitch - c.inner)), 1);
  if (columns.size() == 0) columns = random_array(DType::BF16, padded * c.inner, 2);
  // Sums of products up to 16 in another order, and a rounding of the result.
  expect_same(*kernel_of(c, f, symbolic),
              {rows, columns, random_array(DType::F32, c.columns, 3), random_array(DType::BF16, c.rows * c.columns, 4)},
              sizes, 1, 16.0 * static_cast<double>(c.inner) * 0x1p-24);
}

constexpr Form kForms[] = {
    {Rows::AlongInner, Columns::InPanels, false, false}, {Rows::AlongInner, Columns::InPanels, true, false},
    {Rows::Apart, Columns::InPanels, false, false},      {Rows::Apart, Columns::AlongInner, false, true},
    {Rows::AlongInner, Columns::AlongInner, true, true}, {Rows::AlongInner, Columns::Across, false, true},
    {Rows::Across, Columns::Across, true, true},         {Rows::Across, Columns::AlongInner, true, true},
    {Rows::Across, Columns::InPanels, true, false},
};

TEST_F(RegisterMatrices, EveryFormOfOperands) {
  for (const Form& f : kForms)
    for (const bool symbolic : {false, true}) {
      expect_product({64, 64, 64}, f, symbolic);
      expect_product({45, 43, 84}, f, symbolic);
      expect_product({45, 43, 84, 1, 2, 32, 1, 32}, f, symbolic);
      expect_product({45, 43, 84, 2, 1, 32, 2, 64}, f, symbolic);
    }
}

TEST_F(RegisterMatrices, TailsOfEverySize) {
  for (const Form& f : {kForms[0], kForms[3], kForms[6]}) {
    for (const int64_t matrices : {1, 2})
      for (int64_t rows = 0; rows <= 65; ++rows) expect_product({rows, 40, 32, matrices}, f, true);
    for (const int64_t rows : {0, 1, 15, 16, 17, 31, 32, 33, 48, 65}) expect_product({rows, 40, 32}, f);
    // The verifier finds the panels of columns that fill more than one.
    const int64_t least = f.columns == Columns::InPanels ? 33 : 1;
    for (int64_t columns = least; columns <= 66; ++columns) expect_product({17, columns, 32}, f);
    for (int64_t inner = f.columns == Columns::InPanels ? 4 : 2; inner <= 68; inner += 2)
      expect_product({17, 40, inner, 2, 2, 64, 2, inner % 4 ? 256 : 32}, f);
  }
}

// Steps that a smaller number divides need no second configuration.
TEST_F(RegisterMatrices, InstructionsOfFewSteps) {
  for (const Form& f : kForms)
    for (const int64_t depth : {1, 9, 12}) {
      expect_product({40, 38, 72, 2, 2, 64, 2, 96, depth}, f);
      expect_product({40, 38, 80, 2, 2, 64, 2, 16 * depth, depth}, f);
    }
}

TEST_F(RegisterMatrices, ManySlices) {
  for (const Form& f : kForms) {
    expect_product({20, 38, 520, 2, 2, 32, 1, 256}, f);
    expect_product({36, 66, 256, 2, 2, 64, 3, 64}, f);
  }
}

// The last element of an odd inner space has no second one. What lies beside it in memory counts nothing, even if it is
// no number.
TEST_F(RegisterMatrices, OddInnerSpaces) {
  for (const Form& f : {kForms[4], kForms[6], kForms[7], Form{Rows::AlongInner, Columns::Across, true, true}})
    for (int64_t inner = 1; inner <= 133; inner += inner < 40 ? 2 : 31) {
      const Case c{21, 19, inner, 2, 1, 32, 1, inner > 70 ? 64 : 256};
      Array rows = random_array(DType::BF16, c.rows * c.inner, 1);
      expect_product(c, f, false, rows);
      if (f.rows == Rows::AlongInner)
        rows.set(c.inner, loops::from_double(DType::BF16, NAN));  // the first element of the second row
      expect_product(c, f, false, rows);
    }
}

TEST_F(RegisterMatrices, NotANumberAndInfinity) {
  const Case c{36, 40, 90};
  Array rows = random_array(DType::BF16, c.rows * c.inner, 1), columns = random_array(DType::BF16, 64 * c.inner, 2);
  rows.set(7, loops::from_double(DType::BF16, NAN));
  rows.set(2 * c.inner + 3, loops::from_double(DType::BF16, INFINITY));
  rows.set(33 * c.inner, loops::from_double(DType::BF16, -INFINITY));
  columns.set(150, loops::from_double(DType::BF16, NAN));
  for (const Form& f : {kForms[0], kForms[1], kForms[4], kForms[5]}) expect_product(c, f, false, rows, columns);
}

// Windows of 3 x 3 pixels with stride S, whose rows are packed: all of a window together, or a row of it at a time.
TEST_F(RegisterMatrices, WindowsOfPixels) {
  const std::string pattern = R"(kernel
range p0 parallel M
range p1 parallel N
range i0 inner 3
range i1 inner RUN
vector p1 lanes 16
block 64
registers 32 by 32 rows 32 slice SLICE pairs matrix DEPTHPACKS
buffer b0 bf16 read
buffer b1 bf16 read
buffer b2 f32 write
stage loop
  %0 = load bf16 b0[PIXEL + PITCH*i0 + i1]
  %1 = cast f32 %0
  %2 = load bf16 b1[64*((i1) // (2)) + (i1) % (2) + 32*RUN*i0 + 96*RUN*((p1) // (32)) + 2*((p1) % (32))]
  %3 = cast f32 %2
  %4 = mul f32 %1 %3
  %5 = accumulate f32 sum %4
stage
  %6 = result f32 %5
  store f32 b2[p1 + N*p0] %6
)";
  const auto n = [](int64_t v) { return std::to_string(v); };
  constexpr int64_t kWidth = 5, kColumns = 90;  // of the result
  for (const int64_t stride : {1, 2})
    for (const int64_t height : {1, 8})
      for (const int64_t channels : {6, 32})
        for (const int64_t depth : {3, 16})
          for (const int64_t slice : {96, 384}) {
            const int64_t rows = height * kWidth, pitch = (stride * (kWidth - 1) + 3) * channels, run = 3 * channels;
            SCOPED_TRACE(fmt::format("stride {}, {} rows, {} channels, {} steps, slices of {}", stride, height,
                                     channels, depth, slice));
            // A column of pixels is rows that are equally far apart.
            const auto k = loops::parse_kernel(
                text(pattern, {{"PACKS", height > 1 ? " packs rows" : ""},
                               {"96*RUN", n(3 * run * 32)},
                               {"32*RUN", n(32 * run)},
                               {"PIXEL", height > 1 ? "S*C*((p0) % (W)) + S*PITCH*((p0) // (W))" : "S*C*p0"},
                               {"S*PITCH", n(stride * pitch)},
                               {"S*C", n(stride * channels)},
                               {"PITCH", n(pitch)},
                               {"SLICE", n(slice)},
                               {"DEPTH", n(depth)},
                               {"RUN", n(run)},
                               {"M", n(rows)},
                               {"N", n(kColumns)},
                               {"W", n(kWidth)}}));
            expect_same(*k,
                        {random_array(DType::BF16, pitch * (stride * (height - 1) + 3), 1),
                         random_array(DType::BF16, 96 * 3 * run, 2), random_array(DType::F32, rows * kColumns, 3)},
                        {}, 1, 1e-4);
          }
}

// The instruction, and no register for matrices that LLVM saves or configures.
TEST(CodeOfRegisterMatrices, NamesTheirRegisters) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "register_matrices";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  CompileOptions options;
  options.dump_dir = folder.string();
  const auto count_in = [&](const Case& c, std::string_view word) {
    compile(std::vector<Request>{{loops::print(*kernel_of(c, kForms[0])), "matrices"}}, matrix_target(), options);
    std::ifstream in(folder / "matrices.s");
    const std::string code(std::istreambuf_iterator<char>(in), {});
    int found = 0;
    for (size_t at = 0; (at = code.find(word, at)) != std::string::npos; at += word.size()) ++found;
    return found;
  };
  const Case whole{64, 64, 128}, rest{70, 64, 140};
  EXPECT_EQ(count_in(whole, "tdpbf16ps"), 4);
  EXPECT_EQ(count_in(whole, "tilezero"), 4);
  EXPECT_EQ(count_in(whole, "tileloadd"), 4);
  EXPECT_EQ(count_in(whole, "tilestored"), 4);
  EXPECT_EQ(count_in(whole, "ldtilecfg"), 1);
  EXPECT_EQ(count_in(whole, "tilerelease"), 1);
  EXPECT_EQ(count_in(whole, "sttilecfg"), 0);
  EXPECT_EQ(count_in(rest, "ldtilecfg"), 4);
  EXPECT_EQ(count_in(rest, "tilestored"), 2 * 4 + 2 * 2);
}

TEST(CodeOfRegisterMatrices, IsMadeEverywhere) {
  for (const Form& f : kForms)
    for (const bool symbolic : {false, true}) {
      const auto k = kernel_of({45, 43, 84}, f, symbolic);
      loops::verify(*k);
      const std::vector<Request> requests = {{loops::print(*k), "matrices"}};
      EXPECT_FALSE(compile(requests, matrix_target(), {})[0].object->bytes.empty());
    }
}

TEST(CodeOfRegisterMatrices, IsNotMadeForOtherTargets) {
  Target without = matrix_target();
  without.features = "-amx-bf16,-amx-tile";
  const std::vector<Request> requests = {{loops::print(*kernel_of({64, 64, 64}, kForms[0])), "matrices"}};
  EXPECT_THROW(compile(requests, without, {}), Error);
}

TEST(CodeOfRegisterMatrices, KernelsThatDoNotVerify) {
  const Case c{40, 64, 64};
  EXPECT_NO_THROW(loops::verify(*kernel_of(c, kForms[0])));
  const auto refuses = [&](const auto& change, const Form& f = kForms[0]) {
    Case changed = c;
    change(changed);
    EXPECT_THROW(loops::verify(*kernel_of(changed, f)), Error);
  };
  refuses([](Case& x) { x.depth = 17; });
  refuses([](Case& x) { x.matrices = 3, x.row_block = 96; });
  refuses([](Case& x) { x.vectors = 3, x.columns = 96; });
  refuses([](Case& x) { x.slice = 48; });             // one and a half instructions
  refuses([](Case& x) { x.inner = 63; }, kForms[5]);  // rows of odd sizes are packed
  std::string of_vectors = loops::print(*kernel_of(c, kForms[0]));
  of_vectors.replace(of_vectors.find(" pairs"), 6, "");
  EXPECT_THROW(loops::verify(*loops::parse_kernel(of_vectors)), Error);
}

}  // namespace
}  // namespace vesta::codegen::testing
