// Kernels whose vectors hold every second element (Shape::pairs): against the interpreter, with what lies beside the
// half types, and which stages take that order.
#include "codegen/llvm/shape.h"
#include "codegen_run.h"

namespace vesta::codegen::testing {
namespace {

const int64_t kSizes[] = {1, 15, 16, 31, 32, 33, 64, 96, 100, 257, 1000};

std::vector<bool> pairs_of(const std::string& text) { return analyse(*scheduled(text, 64)).pairs; }

// Two halves, a byte, an index and a float read; a half and a float written.
const char* kPointwise = R"(kernel
range p0 parallel EXTENT
vector p0
block 128
buffer b0 bf16 read
buffer b1 bf16 read
buffer b2 f32 read
buffer b3 bool read
buffer b4 bf16 write
buffer b5 f32 write
stage
  %0 = load bf16 b0[p0]
  %1 = load bf16 b1[p0]
  %2 = load f32 b2[p0]
  %3 = load bool b3[p0]
  %4 = cast f32 %0
  %5 = cast f32 %1
  %6 = mul f32 %4 %5
  %7 = index i64 [p0]
  %8 = cast f32 %7
  %9 = select f32 %3 %2 %8
  %10 = add f32 %6 %9
  %11 = cast bf16 %10
  store bf16 b4[p0] %11
  store f32 b5[p0] %10
)";

TEST(CodegenPairs, Pointwise) {
  for (int64_t n : kSizes) {
    const std::string kernel = text(kPointwise, {{"EXTENT", std::to_string(n)}});
    for (const std::string& k : {kernel, text(kernel, {{"b4 bf16 write\n", "b4 bf16 write stream\n"}})}) {
      expect_same(k,
                  {random_array(DType::BF16, n, 1, true), random_array(DType::BF16, n, 2, true),
                   random_array(DType::F32, n, 3, true), random_array(DType::Bool, n, 4), make_array(DType::BF16, n),
                   make_array(DType::F32, n)},
                  {});
    }
  }
}

// Elements that are copied keep their bits, also those of a NaN; rounded ones become the one NaN that ATen makes.
TEST(CodegenPairs, BitsOfNotANumber) {
  const std::string kernel = R"(kernel
range p0 parallel 64
vector p0
block 64
buffer b0 bf16 read
buffer b1 bf16 write
buffer b2 bf16 write
stage
  %0 = load bf16 b0[p0]
  store bf16 b1[p0] %0
  %1 = cast f32 %0
  %2 = neg f32 %1
  %3 = cast bf16 %2
  store bf16 b2[p0] %3
)";
  ASSERT_EQ(pairs_of(kernel), std::vector<bool>{true});
  std::vector<Array> arrays = {make_array(DType::BF16, 64), make_array(DType::BF16, 64), make_array(DType::BF16, 64)};
  auto words = [&](size_t b) { return reinterpret_cast<uint16_t*>(arrays[b].bytes.data()); };
  for (size_t i = 0; i < 64; ++i) words(0)[i] = static_cast<uint16_t>(0xff81 + i);
  run_jit(*scheduled(kernel), arrays, {});
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(words(1)[i], words(0)[i]);
    EXPECT_EQ(words(2)[i], 0x7fc0);
  }
}

const char* kRows = R"(kernel
SIZE
range p0 parallel 3
range i0 inner EXTENT
vector i0
buffer b0 bf16 read
buffer b1 bf16 read
buffer b2 bf16 write
buffer b3 i64 write
row r0 SLOT
stage loop
  %0 = load bf16 b0[p0*EXTENT + i0]
  %1 = cast f32 %0
  %2 = load bf16 b1[i0]
  %3 = cast f32 %2
  %4 = add f32 %1 %3
  %5 = accumulate f32 max %4
  %6 = index i64 [i0]
  %7 = accumulate f32 argmax %4 %6
  %8 = cast SLOT %4
  rowstore SLOT r0 %8
stage
  %9 = position i64 %7
  store i64 b3[p0] %9
stage loop
  %10 = rowload SLOT r0
  %11 = cast f32 %10
  %12 = result f32 %5
  %13 = sub f32 %11 %12
  %14 = cast bf16 %13
  store bf16 b2[p0*EXTENT + i0] %14
)";

TEST(CodegenPairs, RowsWithScratchAndPositions) {
  for (const char* slot : {"f32", "bf16"}) {
    std::string kernel = text(kRows, {{"SLOT", slot}});
    if (slot == std::string("f32")) {  // there is nothing to cast
      kernel = text(kernel, {{"  %8 = cast f32 %4\n", ""},
                             {"rowstore f32 r0 %8", "rowstore f32 r0 %4"},
                             {"  %11 = cast f32 %10\n", ""},
                             {"sub f32 %11", "sub f32 %10"}});
    }
    for (int64_t n : kSizes) {
      std::vector<Array> arrays = {random_array(DType::BF16, 3 * n, 1), random_array(DType::BF16, n, 2),
                                   make_array(DType::BF16, 3 * n), make_array(DType::I64, 3)};
      expect_same(text(kernel, {{"SIZE\n", ""}, {"EXTENT", std::to_string(n)}}), arrays, {});
      expect_same(text(kernel, {{"SIZE", "size s0 >= 1"}, {"EXTENT", "s0"}}), arrays, {n});
    }
  }
}

TEST(CodegenPairs, SquaresReadAcross) {
  const char* kernel = R"(kernel
range p0 parallel 64
range p1 parallel 96
vector p1
block 128
buffer b0 bf16 read
buffer b1 bf16 read
buffer b2 bf16 write
stage
  %0 = load bf16 b0[96*p0 + p1]
  %1 = cast f32 %0
  %2 = load bf16 b1[64*p1 + p0]
  %3 = cast f32 %2
  %4 = sub f32 %1 %3
  %5 = cast bf16 %4
  store bf16 b2[96*p0 + p1] %5
)";
  ASSERT_EQ(pairs_of(kernel), std::vector<bool>{true});
  expect_same(kernel,
              {random_array(DType::BF16, 64 * 96, 1, true), random_array(DType::BF16, 64 * 96, 2, true),
               make_array(DType::BF16, 64 * 96)},
              {});
}

TEST(CodegenPairs, OnlyWhereTheyPay) {
  const std::string bf16 = text(kPointwise, {{"EXTENT", "1024"}});
  EXPECT_EQ(pairs_of(bf16), std::vector<bool>{true});
  EXPECT_EQ(pairs_of(text(bf16, {{"bf16", "f16"}})), std::vector<bool>{false});
  // Elements in sequence: a gap between them, a mask, a place that a value names.
  EXPECT_EQ(pairs_of(text(bf16, {{"load bf16 b1[p0]", "load bf16 b1[2*p0]"}})), std::vector<bool>{false});
  const std::string uniform = text(bf16, {{"load bf16 b1[p0]", "load bf16 b1[5]"}, {"  store f32 b5[p0] %10\n", ""}});
  EXPECT_EQ(pairs_of(uniform), std::vector<bool>{true});
  const std::string masked = R"(kernel
range p0 parallel 1024
vector p0
block 128
buffer b0 bf16 read
buffer b1 bool read
buffer b2 bf16 write
stage
  %0 = load bool b1[p0]
  %1 = load bf16 b0[p0] if %0
  store bf16 b2[p0] %1
)";
  EXPECT_EQ(pairs_of(masked), std::vector<bool>{false});
  // Each loop of a row program decides for itself.
  const std::string rows = text(kRows, {{"SIZE\n", ""}, {"EXTENT", "64"}, {"SLOT", "bf16"}});
  EXPECT_EQ(pairs_of(rows), (std::vector<bool>{true, false, true}));
}

}  // namespace
}  // namespace vesta::codegen::testing
