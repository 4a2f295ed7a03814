// Kernel texts: print and parse are inverse, the verifier names what is wrong, the interpreter gives the meaning.
#include <gtest/gtest.h>

#include <cmath>

#include "kernel_reference.h"
#include "loops/half.h"
#include "loops/scalar.h"
#include "vesta/error.h"

namespace vesta::loops {
namespace {

const char* kSoftmax = R"(kernel
size s0
range p0 parallel s0
range i0 inner 5
vector i0
buffer b0 f32 read
buffer b1 f32 write
row r0 f32
stage loop
  %0 = load f32 b0[5*p0 + i0]
  %1 = accumulate f32 max %0
stage loop
  %2 = load f32 b0[5*p0 + i0]
  %3 = result f32 %1
  %4 = sub f32 %2 %3
  %5 = exp f32 %4
  %6 = accumulate f32 sum %5
  rowstore f32 r0 %5
stage loop
  %7 = rowload f32 r0
  %8 = result f32 %6
  %9 = div f32 %7 %8
  store f32 b1[5*p0 + i0] %9
)";

TEST(LoopsText, RoundTrip) {
  auto k = parse_kernel(kSoftmax);
  verify(*k);
  EXPECT_EQ(print(*k), print(*parse_kernel(print(*k))));
  EXPECT_NE(print(*k).find("load f32 b0[i0 + 5*p0]"), std::string::npos);
  k->buffers[1].stream = true;
  EXPECT_NE(print(*k).find("buffer b1 f32 write stream"), std::string::npos);
  EXPECT_TRUE(parse_kernel(print(*k))->buffers[1].stream);
}

// Data across the lanes is read in squares, data along them is prefetched.
const char* kTiled = R"(kernel
range p0 parallel 64
range p1 parallel 96
vector p1 lanes 16
block 96
buffer b0 f32 read
buffer b1 f32 read
buffer b2 f32 write
stage
  %0 = load f32 b0[96*p0 + p1]
  %1 = load f32 b1[p0 + 64*p1]
  %2 = sub f32 %0 %1
  store f32 b2[96*p0 + p1] %2
tile p0 64 by 32 pitch 48 %1
ahead p0 4 %0
)";

TEST(LoopsText, TilesAndWhatIsFetchedAhead) {
  auto k = parse_kernel(kTiled);
  verify(*k);
  EXPECT_EQ(print(*k), kTiled);
  EXPECT_EQ(k->lanes, 16);
  EXPECT_EQ(k->tile.loads, std::vector<Ref>{1});
  EXPECT_EQ(k->ahead.loads, std::vector<Ref>{0});
}

// How an expression came to be must not show in the text.
TEST(LoopsText, CanonicalWhateverTheBuildOrder) {
  auto build = [](bool swapped) {
    Kernel k;
    k.context = std::make_shared<ExprContext>();
    Expr a, b;
    if (swapped) {
      b = k.context->size_symbol("width", 7);
      a = k.context->size_symbol("height", 9);
    } else {
      a = k.context->size_symbol("x", 4);
      b = k.context->size_symbol("y", 5);
    }
    k.sizes = {a, b};
    Expr v = k.context->loop_symbol("v", a * b);
    k.ranges = {{v, a * b, RangeKind::Parallel}};
    k.vector = 0;
    k.block = 64;
    k.buffers = {{DType::F32, false, true}, {DType::F32, true, true}};
    Instr load;
    load.kind = InstrKind::Load;
    load.buffer = 0;
    load.index = swapped ? v * b + a * b : b * (a + v);
    Instr store = load;
    store.kind = InstrKind::Store;
    store.buffer = 1;
    store.in[0] = swapped ? 1 : 0;
    store.index = v;
    k.instrs = swapped ? std::vector<Instr>{store, load} : std::vector<Instr>{load, store};
    k.stages = {{false, swapped ? std::vector<Ref>{1, 0} : std::vector<Ref>{0, 1}}};
    verify(k);
    return print(k);
  };
  EXPECT_EQ(build(false), build(true));
}

TEST(LoopsText, ParseErrorsNameTheLine) {
  try {
    parse_kernel("kernel\nstage\n  %0 = add f32 %7 %7\n");
    FAIL();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("unknown value \"%7\" in line 3"), std::string::npos) << e.what();
  }
}

void expect_rejected(const std::string& text, const std::string& reason) {
  auto k = parse_kernel(text);
  try {
    verify(*k);
    ADD_FAILURE() << "accepted:\n" << text;
  } catch (const InternalError& e) {
    EXPECT_NE(std::string(e.what()).find(reason), std::string::npos) << e.what();
  }
}

TEST(LoopsVerify, NamesTheBrokenRule) {
  std::string head =
      "kernel\nrange p0 parallel 8\nrange i0 inner 4\nvector i0\nbuffer b0 f32 read\nbuffer b1 f32 write\n";
  expect_rejected(head + "stage loop\n %0 = load f32 b0[i0]\nstage\n store f32 b1[p0] %0\n", "out of its scope");
  expect_rejected(head + "stage\n %0 = load f32 b0[i0]\n", "i0 is not in scope");
  expect_rejected(head + "stage loop\n %0 = load f32 b0[i0]\n store f32 b0[i0] %0\n", "only read");
  expect_rejected(head + "stage loop\n %0 = load f64 b0[i0]\n", "as f64");
  expect_rejected(head + "stage loop\n %0 = load f32 b0[i0]\n %1 = const f64 1\n %2 = add f32 %0 %1\n",
                  "is f64, not f32");
  expect_rejected(head + "stage\n %0 = load f32 b0[p0]\n %1 = accumulate f32 sum %0\n", "outside a loop stage");
  expect_rejected("kernel\nrange p0 parallel 8\nvector p0\nstage\n", "needs a block");
  expect_rejected("kernel\nrange p0 parallel 8\nbuffer b0 f32 write stream\nstage\n %0 = load f32 b0[p0]\n",
                  "reads a buffer that is stored past the caches");
}

TEST(LoopsVerify, NamesTheBrokenRuleOfATile) {
  const auto broken = [](const std::string& from, const std::string& to, const std::string& reason) {
    std::string text = kTiled;
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    expect_rejected(text.replace(at, from.size(), to), reason);
  };
  broken("lanes 16", "lanes 12", "no power of two");
  broken("lanes 16", "lanes 64", "do not divide blocks of 96");
  broken("vector p1 lanes 16\nblock 96", "vector p1 lanes 32\nblock 96\nserial", "not of neighbours");
  broken("tile p0", "tile p1", "along a parallel range before the lanes");
  broken("block 96", "block 64", "several blocks");
  broken("64 by 32", "48 by 32", "leave something over");
  broken("64 by 32", "64 by 40", "leave something over");
  broken("pitch 48", "pitch 16", "rows of a tile overlap");
  broken("pitch 48 %1", "pitch 48", "a tile of nothing");
  broken("pitch 48 %1", "pitch 48 %2", "no load of every element");
  broken("pitch 48 %1", "pitch 48 %0", "does not run along the rows");
  broken("b1 f32 read", "b1 f32 write", "reads what is written");
  broken("stage\n", "stage loop\n", "kernel with loops");
  broken("ahead p0 4 %0", "ahead p0 0 %0", "these ones");
  broken("ahead p0 4 %0", "ahead p0 4 %2", "no load of every element");
}

TEST(LoopsInterpret, Softmax) {
  auto k = parse_kernel(kSoftmax);
  std::vector<float> in = {1, 2, 3, 4, 5, -1, 0, 1, 0, -1}, out(10);
  void* buffers[] = {in.data(), out.data()};
  int64_t sizes[] = {2};
  interpret(*k, buffers, sizes, 0, 2);
  for (int row = 0; row < 2; ++row) {
    double sum = 0;
    for (int i = 0; i < 5; ++i) sum += std::exp(in[row * 5 + i]);
    for (int i = 0; i < 5; ++i) EXPECT_NEAR(out[row * 5 + i], std::exp(in[row * 5 + i]) / sum, 1e-7);
  }
}

TEST(LoopsInterpret, ColumnsScanAndArgmax) {
  auto k = parse_kernel(R"(kernel
range p0 parallel 3
range i0 inner 4
vector p0
block 2
buffer b0 f32 read
buffer b1 f32 write
buffer b2 i64 write
stage loop
  %0 = load f32 b0[3*i0 + p0]
  %1 = scan f32 sum %0
  %2 = index i64 [i0]
  %3 = accumulate f32 argmax %0 %2
  store f32 b1[3*i0 + p0] %1
stage
  %4 = position i64 %3
  store i64 b2[p0] %4
)");
  verify(*k);
  float nan = NAN;
  std::vector<float> in = {1, 5, 2, 4, 5, nan, 4, 1, 9, 0, 2, nan}, out(12);
  std::vector<int64_t> at(3);
  void* buffers[] = {in.data(), out.data(), at.data()};
  EXPECT_EQ(work_items(*k), Expr(2));
  interpret(*k, buffers, {}, 0, 2);
  EXPECT_EQ(out[9], 9);
  EXPECT_EQ(out[10], 13);
  EXPECT_EQ(at, (std::vector<int64_t>{1, 0, 1}));
}

TEST(LoopsScalar, HalfConversionsRoundToNearestEven) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    auto h = static_cast<uint16_t>(bits);
    float wide = f16_to_f32(h);
    if (std::isnan(wide)) {
      EXPECT_EQ(f32_to_f16(wide) & 0x7e00, 0x7e00);
    } else {
      EXPECT_EQ(f32_to_f16(wide), h);
    }
    float brain = bf16_to_f32(h);
    if (!std::isnan(brain)) {
      EXPECT_EQ(f32_to_bf16(brain), h);
    }
  }
  EXPECT_EQ(f32_to_f16(1 + 0x1p-11f), 0x3c00);      // tie, down to even
  EXPECT_EQ(f32_to_f16(1 + 3 * 0x1p-11f), 0x3c02);  // tie, up to even
  EXPECT_EQ(f32_to_f16(65520.f), 0x7c00);
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0);
  EXPECT_EQ(f32_to_f16(0x1.000002p-25f), 1);
  EXPECT_EQ(f32_to_bf16(1 + 0x1p-8f), 0x3f80);
  EXPECT_EQ(f32_to_bf16(1 + 3 * 0x1p-8f), 0x3f82);
}

TEST(LoopsScalar, IntegersWrap) {
  auto i = [](int64_t v) { return Scalar{0, v}; };
  EXPECT_EQ(compute(Prim::Add, DType::I32, i(INT32_MAX), i(1), {}).i, INT32_MIN);
  EXPECT_EQ(compute(Prim::Div, DType::I64, i(INT64_MIN), i(-1), {}).i, INT64_MIN);
  EXPECT_EQ(compute(Prim::Mod, DType::I32, i(-7), i(3), {}).i, 2);
  EXPECT_EQ(compute(Prim::Rem, DType::I32, i(-7), i(3), {}).i, -1);
  EXPECT_EQ(compute(Prim::FloorDiv, DType::I8, i(-7), i(2), {}).i, -4);
  EXPECT_EQ(compute(Prim::Shl, DType::I32, i(1), i(32), {}).i, 0);
  EXPECT_EQ(compute(Prim::Shr, DType::I32, i(-8), i(40), {}).i, -1);
  EXPECT_EQ(cast(DType::F32, DType::I32, Scalar{1e20, 0}).i, INT32_MIN);
  EXPECT_EQ(cast(DType::F32, DType::U8, Scalar{-1, 0}).i, 255);
}

}  // namespace
}  // namespace vesta::loops
