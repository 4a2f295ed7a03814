// Generated code against the interpreter: every kind of instruction, over sizes around the vector length.
#include "codegen_run.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace vesta::codegen::testing {
namespace {

const int64_t kSizes[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 257, 1000};

const char* kAdd = R"(kernel
SIZE
range p0 parallel EXTENT
vector p0
block BLOCK
buffer b0 f32 read
buffer b1 f32 read
buffer b2 f32 write
stage
  %0 = load f32 b0[p0]
  %1 = load f32 b1[p0]
  %2 = mul f32 %0 %1
  %3 = add f32 %2 %0
  store f32 b2[p0] %3
)";

TEST(CodegenPointwise, StaticAndSymbolicSizes) {
  for (int64_t n : kSizes) {
    for (const char* block : {"16", "64", "256"}) {
      std::vector<Array> arrays = {random_array(DType::F32, n, 1, true), random_array(DType::F32, n, 2, true),
                                   make_array(DType::F32, n)};
      expect_same(text(kAdd, {{"SIZE", ""}, {"EXTENT", std::to_string(n)}, {"BLOCK", block}}), arrays, {});
      expect_same(text(kAdd, {{"SIZE", "size s0 >= 0"}, {"EXTENT", "s0"}, {"BLOCK", block}}), arrays, {n});
    }
  }
}

TEST(CodegenPointwise, EmptySizes) {
  std::vector<Array> arrays = {make_array(DType::F32, 0), make_array(DType::F32, 0), make_array(DType::F32, 0)};
  expect_same(text(kAdd, {{"SIZE", "size s0 >= 0"}, {"EXTENT", "s0"}, {"BLOCK", "64"}}), arrays, {0});
}

TEST(CodegenPointwise, BroadcastTransposeAndStrides) {
  const char* kernel = R"(kernel
size s0
size s1
range p0 parallel s0
range p1 parallel s1
vector p1
block 32
buffer b0 f32 read
buffer b1 f32 read
buffer b2 f32 read
buffer b3 f32 read
buffer b4 f32 write
buffer b5 TYPE write
stage
  %0 = load f32 b0[p0]
  %1 = load f32 b1[p1]
  %2 = load f32 b2[p0 + s0*p1]
  %3 = load f32 b3[s1*p0*STRIDE + STRIDE*p1]
  %4 = add f32 %0 %1
  %5 = add f32 %2 %3
  %6 = mul f32 %4 %5
  store f32 b4[s1*p0 + p1] %6
  %7 = cast TYPE %6
  store TYPE b5[s0*p1 + p0] %7
)";
  for (const char* type : {"f32", "bf16", "f64", "i8"}) {
    for (int stride : {1, 2, 3, 5}) {
      for (auto [rows, columns] : {std::pair<int64_t, int64_t>{3, 5}, {5, 64}, {2, 97}}) {
        std::vector<Array> arrays = {
            random_array(DType::F32, rows, 1),           random_array(DType::F32, columns, 2),
            random_array(DType::F32, rows * columns, 3), random_array(DType::F32, rows * columns * stride, 4),
            make_array(DType::F32, rows * columns),      make_array(parse_dtype(type), rows * columns)};
        expect_same(text(kernel, {{"STRIDE", std::to_string(stride)}, {"TYPE", type}}), arrays, {rows, columns});
      }
    }
  }
}

// Several stores that together write adjacent elements, each one every STRIDE-th of them, in any order; or some of
// these stores alone.
TEST(CodegenPointwise, StoresBetweenEachOther) {
  const auto kernel = [](const std::string& type, int64_t stride, const std::vector<int64_t>& places, bool inner) {
    std::string body;
    for (size_t k = 0; k < places.size(); ++k)
      body += fmt::format("  %{0} = const f32 {3}\n  %{1} = mul f32 %0 %{0}\n  %{2} = cast {4} %{1}\n", 3 * k + 1,
                          3 * k + 2, 3 * k + 3, places[k] + 1, type);
    for (size_t k = 0; k < places.size(); ++k)
      body += fmt::format("  store {0} b1[{1}*s0*p0 + {1}*{2} + {3}] %{4}\n", type, stride, inner ? "i0" : "p1",
                          places[k], 3 * k + 3);
    return fmt::format(R"(kernel
size s0
range p0 parallel 3
range {0} {1} s0
vector {0}
{2}buffer b0 f32 read
buffer b1 {3} write
stage{4}
  %0 = load f32 b0[s0*p0 + {0}]
{5})",
                       inner ? "i0" : "p1", inner ? "inner" : "parallel", inner ? "" : "block 64\n", type,
                       inner ? " loop" : "", body);
  };
  using Places = std::vector<int64_t>;
  for (const char* type : {"f32", "bf16", "f64", "i8"})
    for (const auto& [stride, places] : std::vector<std::pair<int64_t, Places>>{{2, {0, 1}},
                                                                                {2, {1, 0}},
                                                                                {3, {0, 1, 2}},
                                                                                {3, {2, 0, 1}},
                                                                                {3, {0, 2}},
                                                                                {4, {3, 2, 1, 0}},
                                                                                {4, {0, 1, 2}},
                                                                                {5, {0, 1, 2, 3, 4}}})
      for (const bool inner : {false, true})
        for (const int64_t n : {1, 5, 16, 31, 64, 97, 200}) {
          std::vector<Array> arrays = {random_array(DType::F32, 3 * n, 1),
                                       random_array(parse_dtype(type), 3 * n * stride, 2)};
          expect_same(kernel(type, stride, places, inner), arrays, {n});
        }
}

TEST(CodegenPointwise, MaskedGatherScatterAndScalar) {
  const char* kernel = R"(kernel
size s0
range p0 parallel s0
VECTOR
buffer b0 i64 read
buffer b1 TYPE read
buffer b2 TYPE write
buffer b3 bool read
buffer b4 TYPE write
stage
  %0 = load i64 b0[p0]
  x0 = indirect %0
  %1 = load bool b3[p0]
  %2 = load TYPE b1[x0] if %1
  store TYPE b2[p0] %2
  store TYPE b4[2*x0 + 1] %2 if %1
)";
  for (const char* type : {"f32", "f64", "bf16", "f16", "i8", "bool", "i64"}) {
    for (const char* vector : {"", "vector p0\nblock 64"}) {
      for (int64_t n : kSizes) {
        DType t = parse_dtype(type);
        Array index = make_array(DType::I64, n);
        for (int64_t i = 0; i < n; ++i) index.set(i, {0, (i * 7 + 3) % n});
        if (n % 7 == 0) continue;  // the permutation above needs 7 and n coprime
        std::vector<Array> arrays = {index, random_array(t, n, 5), make_array(t, n), random_array(DType::Bool, n, 6),
                                     make_array(t, 2 * n)};
        if (n < 2) continue;
        expect_same(text(kernel, {{"TYPE", type}, {"VECTOR", vector}}), arrays, {n});
      }
    }
  }
}

// Rows that come from one of three buffers, as a concatenation reads them; where nothing is read the address is far
// outside of the buffer.
TEST(CodegenPointwise, RunsPickedByTheRow) {
  const char* kernel = R"(kernel
range p0 parallel 12
range p1 parallel COLUMNS
vector p1
block 32
buffer b0 TYPE read
buffer b1 TYPE read
buffer b2 TYPE read
buffer b3 TYPE write
stage
  %0 = index i64 [p0]
  %1 = const i64 3
  %2 = lt i64 %0 %1
  %3 = load TYPE b0[COLUMNS*p0 + p1] if %2
  %4 = ge i64 %0 %1
  %5 = const i64 7
  %6 = lt i64 %0 %5
  %7 = and bool %4 %6
  %8 = load TYPE b1[COLUMNS*p0 + p1 - 3*COLUMNS] if %7
  %9 = ge i64 %0 %5
  %10 = load TYPE b2[FAR*p0 + p1 - 7*FAR] if %9
)";
  for (DType t : {DType::F32, DType::F64, DType::BF16, DType::I64, DType::U8, DType::Bool}) {
    const bool half = t == DType::BF16;
    for (int64_t columns : {1, 5, 16, 33, 64, 100}) {
      std::string body = kernel;
      if (half) {
        body +=
            "  %11 = cast f32 %3\n  %12 = cast f32 %8\n  %13 = cast f32 %10\n"
            "  %14 = select f32 %6 %12 %13\n  %15 = select f32 %2 %11 %14\n"
            "  %16 = cast bf16 %15\n  store bf16 b3[COLUMNS*p0 + p1] %16\n";
      } else {
        body +=
            "  %11 = select TYPE %6 %8 %10\n  %12 = select TYPE %2 %3 %11\n"
            "  store TYPE b3[COLUMNS*p0 + p1] %12\n";
      }
      const int64_t far = 4096;
      std::vector<Array> arrays = {random_array(t, 3 * columns, 1), random_array(t, 4 * columns, 2),
                                   random_array(t, 4 * far + columns, 3), make_array(t, 12 * columns)};
      const std::string n = std::to_string(columns);
      expect_same(text(body, {{"3*COLUMNS", std::to_string(3 * columns)},
                              {"7*FAR", std::to_string(7 * far)},
                              {"COLUMNS", n},
                              {"FAR", std::to_string(far)},
                              {"TYPE", std::string(name(t))}}),
                  arrays, {});
    }
  }
}

// A mask that differs between lanes, and is false for whole vectors of addresses outside of all memory.
TEST(CodegenPointwise, RunsOfAMaskThatReadsNothing) {
  const char* kernel = R"(kernel
range p0 parallel 300
vector p0
block 64
buffer b0 f32 read
buffer b1 f32 write
stage
  %0 = index i64 [p0]
  %1 = const i64 BEGIN
  %2 = ge i64 %0 %1
  %3 = load f32 b0[p0 - BEGIN] if %2
  %4 = const i64 END
  %5 = lt i64 %0 %4
  %6 = load f32 b0[p0 + 1099511627776] if %5
  %7 = select f32 %2 %3 %6
  store f32 b1[p0] %7
)";
  for (const char* begin : {"1", "16", "17", "250"}) {
    std::vector<Array> arrays = {random_array(DType::F32, 300, 1), make_array(DType::F32, 300)};
    expect_same(text(kernel, {{"BEGIN", begin}, {"END", "0"}}), arrays, {});
  }
}

// A number of 64 bits that is the same for all lanes beside an index: a class, the length of a row.
TEST(CodegenPointwise, IndexBesideANumberOfTheRow) {
  const char* kernel = R"(kernel
range p0 parallel 12
range p1 parallel 75
vector p1
block 75
buffer b0 i64 read
buffer b1 bool write
buffer b2 bool write
stage
  %0 = load i64 b0[p0]
  %1 = index i64 [p1 - 20]
  %2 = OP i64 %0 %1
  store bool b1[75*p0 + p1] %2
  %3 = OP i64 %1 %0
  store bool b2[75*p0 + p1] %3
)";
  Array numbers = make_array(DType::I64, 12);
  const int64_t far = int64_t{1} << 32;  // equal to 0 in 32 bits
  const std::array values{int64_t{0}, int64_t{-20}, int64_t{-21}, int64_t{54}, int64_t{55},        far,
                          -far,       far + 3,      INT64_MAX,    INT64_MIN,   int64_t{INT32_MAX}, int64_t{INT32_MIN}};
  for (size_t i = 0; i < values.size(); ++i) numbers.set(static_cast<int64_t>(i), {0, values[i]});
  for (const char* op : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    SCOPED_TRACE(op);
    expect_same(text(kernel, {{"OP", op}}), {numbers, make_array(DType::Bool, 900), make_array(DType::Bool, 900)}, {});
  }
}

// Rows that are divided where a condition changes: padding of an image, joined rows.
constexpr const char* kPadded = R"(kernel
range p0 parallel 20
range p1 parallel COLUMNS
vector p1
block BLOCK
buffer b0 TYPE read
buffer b1 TYPE write
stage
  %0 = index i64 [p1 - LEFT]
  %1 = const i64 0
  %2 = ge i64 %0 %1
  %3 = const i64 WIDTH
  %4 = lt i64 %0 %3
  %5 = and bool %2 %4
  %6 = index i64 [p0 - 2]
  %7 = ge i64 %6 %1
  %8 = const i64 16
  %9 = lt i64 %6 %8
  %10 = and bool %7 %9
  %11 = and bool %5 %10
  %12 = load TYPE b0[WIDTH*p0 + p1 - LEFT - 2*WIDTH] if %11
  %13 = const TYPE 3
  %14 = select TYPE %11 %12 %13
  store TYPE b1[COLUMNS*p0 + p1] %14
)";

std::string padded(DType t, int64_t left, int64_t width, int64_t right, int64_t block) {
  const int64_t columns = left + width + right;
  return text(kPadded, {{"2*WIDTH", std::to_string(2 * width)},
                        {"COLUMNS", std::to_string(columns)},
                        {"BLOCK", std::to_string(block)},
                        {"LEFT", std::to_string(left)},
                        {"WIDTH", std::to_string(width)},
                        {"TYPE", std::string(name(t))}});
}

TEST(CodegenPointwise, PaddedRows) {
  for (const DType t : {DType::F32, DType::F64, DType::I64, DType::U8})
    for (const int64_t width : {64, 129, 200})
      for (const auto& [left, right] : {std::pair{1, 1}, {16, 16}, {0, 5}, {33, 0}, {70, 90}})
        for (const int64_t block : {64, 128, 512}) {  // a part of a row, or a whole one
          SCOPED_TRACE(::testing::Message() << name(t) << ' ' << left << ' ' << width << ' ' << right << ' ' << block);
          expect_same(padded(t, left, width, right, block),
                      {random_array(t, 16 * width, 1), make_array(t, 20 * (left + width + right))}, {});
        }
}

// No vector is masked where conditions change between vectors.
TEST(CodegenPointwise, RowsAreDividedWhereAConditionChanges) {
  const auto masks = [](int64_t left, int64_t width) {
    const std::filesystem::path folder = std::filesystem::temp_directory_path() / fmt::format("padded{}", getpid());
    CompileOptions options;
    options.dump_dir = folder.string();
    const auto kernel = scheduled(padded(DType::F32, left, width, left, 32 * host_lanes()));
    compile(std::vector<Request>{{loops::print(*kernel), "padded"}}, host_target(), options);
    std::ifstream file(folder / "padded.ll");
    const std::string ir((std::istreambuf_iterator<char>(file)), {});
    std::filesystem::remove_all(folder);
    EXPECT_NE(ir.find("define"), std::string::npos);
    return ir.find("masked.load") != std::string::npos;
  };
  const int64_t l = host_lanes();
  EXPECT_FALSE(masks(l, 20 * l));
  EXPECT_TRUE(masks(1, 20 * l - 2));
}

// The last vector of a row computes columns again, unless the kernel reads what it writes.
TEST(CodegenPointwise, RowsThatEndWithinAVector) {
  const char* kernel = R"(kernel
range p0 parallel 9
range p1 parallel COLUMNS
vector p1
block 64
buffer b0 TYPE read
buffer b1 TYPE write
stage
  %0 = load TYPE b0[70*p0 + p1]
  %1 = load TYPE bSECOND[COLUMNS*p0 + p1]
  %2 = add TYPE %0 %1
  store TYPE b1[COLUMNS*p0 + p1] %2
)";
  for (const DType t : {DType::F32, DType::F64, DType::I32, DType::U8})
    for (const int64_t columns : {3, 8, 12, 31, 60, 65, 69})
      for (const bool in_place : {false, true}) {
        SCOPED_TRACE(::testing::Message() << name(t) << ' ' << columns << ' ' << in_place);
        expect_same(text(kernel, {{"COLUMNS", std::to_string(columns)},
                                  {"TYPE", std::string(name(t))},
                                  {"SECOND", in_place ? "1" : "0"}}),
                    {random_array(t, 9 * 70, 1), random_array(t, 9 * columns, 2)}, {});
      }
}

TEST(CodegenPointwise, DivModAndIndexValues) {
  const char* kernel = R"(kernel
size s0
range p0 parallel 6*s0
vector p0
block 64
buffer b0 f32 read
buffer b1 i64 write
buffer b2 f32 write
stage
  %0 = load f32 b0[(p0 // 6) + s0*(p0 % 6)]
  %1 = index i64 [(p0 // s0) - 3*(p0 % 5)]
  %2 = index f32 [p0]
  %3 = add f32 %0 %2
  store i64 b1[p0] %1
  store f32 b2[6*s0 - p0 - 1] %3
)";
  for (int64_t n : {2, 5, 16, 33}) {
    expect_same(kernel,
                {random_array(DType::F32, 6 * n, 1), make_array(DType::I64, 6 * n), make_array(DType::F32, 6 * n)},
                {n});
  }
}

// Sizes that are multiples of the vector go through turned squares; the split after the first item makes ragged ends.
TEST(CodegenPointwise, TransposedLoadsInSquares) {
  const char* kernel = R"(kernel
range p0 parallel 3
range p1 parallel ROWS
range p2 parallel COLUMNS
vector p2
block BLOCK
buffer b0 TYPE read
buffer b1 TYPE read
buffer b2 TYPE write STREAM
stage
  %0 = load TYPE b0[ROWS*COLUMNS*p0 + COLUMNS*p1 + p2]
  %1 = load TYPE b1[ROWS*COLUMNS*p0 + ROWS*p2 + p1]
  store TYPE b2[ROWS*COLUMNS*p0 + COLUMNS*p1 + p2] %1
  %2 = cast f32 %0
)";
  for (const char* type : {"f32", "bf16", "f64", "i8", "bool"}) {
    for (auto [rows, columns] :
         {std::pair<int64_t, int64_t>{64, 64}, {16, 192}, {32, 48}, {128, 16}, {60, 64}, {64, 72}}) {
      for (const char* block : {"64", "192"}) {
        DType t = parse_dtype(type);
        int64_t n = 3 * rows * columns;
        expect_same(text(kernel, {{"ROWS", std::to_string(rows)},
                                  {"COLUMNS", std::to_string(columns)},
                                  {"BLOCK", block},
                                  {"STREAM", rows == 64 ? "stream" : ""},
                                  {"TYPE", type}}),
                    {random_array(t, n, 1), random_array(t, n, 2), make_array(t, n)}, {});
      }
    }
  }
}

const char* kRowSoftmax = R"(kernel
SIZE
range p0 parallel 3
range i0 inner EXTENT
vector i0
buffer b0 TYPE read
buffer b1 TYPE write
row r0 f32
stage loop
  %0 = load TYPE b0[p0*EXTENT + i0]
  %1 = cast f32 %0
  %2 = accumulate f32 max %1
stage loop
  %3 = load TYPE b0[p0*EXTENT + i0]
  %4 = cast f32 %3
  %5 = result f32 %2
  %6 = sub f32 %4 %5
  %7 = exp f32 %6
  %8 = accumulate f32 sum %7
  rowstore f32 r0 %7
stage loop
  %9 = rowload f32 r0
  %10 = result f32 %8
  %11 = div f32 %9 %10
  %12 = cast TYPE %11
  store TYPE b1[p0*EXTENT + i0] %12
)";

TEST(CodegenRows, Softmax) {
  for (const char* type : {"f32", "bf16", "f16"}) {
    for (int64_t n : kSizes) {
      DType t = parse_dtype(type);
      std::vector<Array> arrays = {random_array(t, 3 * n, 1), make_array(t, 3 * n)};
      double ulps = t == DType::F32 ? 8 : 1;
      expect_same(text(kRowSoftmax, {{"SIZE", ""}, {"TYPE", type}, {"EXTENT", std::to_string(n)}}), arrays, {}, ulps);
      expect_same(text(kRowSoftmax, {{"SIZE", "size s0 >= 0"}, {"TYPE", type}, {"EXTENT", "s0"}}), arrays, {n}, ulps);
    }
  }
}

// Rows of whole vectors are stored past the caches, ragged ones are not: both must arrive. Long rows fetch the next one
// ahead, the last row what is no memory of its own.
TEST(CodegenRows, StoredPastTheCaches) {
  const std::string kernel = text(kRowSoftmax, {{"b1 TYPE write\n", "b1 TYPE write stream\n"}, {"SIZE\n", ""}});
  for (const char* type : {"f32", "bf16", "f16"}) {
    for (int64_t n : {16, 64, 100, 512, 1024, 2048, 3000}) {
      const DType t = parse_dtype(type);
      expect_same(text(kernel.c_str(), {{"EXTENT", std::to_string(n)}, {"TYPE", type}}),
                  {random_array(t, 3 * n, 1), make_array(t, 3 * n)}, {}, 8);
    }
  }
}

TEST(CodegenReduce, EveryOpAndTypeAlongRowsAndColumns) {
  const char* kernel = R"(kernel
SIZE
range p0 parallel COLUMNS
range i0 inner ROWS
range i1 inner 3
vector VECTOR
BLOCK
buffer b0 TYPE read
buffer b1 TYPE write
stage loop
  %0 = load TYPE b0[p0 + COLUMNS*(ROWS*i1 + i0)]
  %1 = accumulate TYPE OP %0
stage
  %2 = result TYPE %1
  store TYPE b1[p0] %2
)";
  for (const char* op : {"sum", "prod", "max", "min", "any", "all"}) {
    for (const char* type : {"f32", "f64", "i32", "i64", "i8", "u8", "bool"}) {
      bool logical = op[0] == 'a';
      if (logical != (std::string(type) == "bool")) continue;
      for (bool columns : {false, true}) {
        for (int64_t rows : {1, 5, 16, 40, 300}) {
          DType t = parse_dtype(type);
          int64_t c = 19;
          std::vector<Array> arrays = {random_array(t, c * rows * 3, 3), make_array(t, c)};
          for (bool symbolic : {false, true}) {
            std::string r = symbolic ? "s0" : std::to_string(rows);
            std::string program = text(kernel, {{"SIZE", symbolic ? "size s0 >= 1" : ""},
                                                {"COLUMNS", "19"},
                                                {"ROWS", r},
                                                {"OP", op},
                                                {"TYPE", type},
                                                {"VECTOR", columns ? "p0" : "i0"},
                                                {"BLOCK", columns ? "block 64" : ""}});
            std::vector<int64_t> sizes;
            if (symbolic) sizes = {rows};
            bool product = std::string(op) == "prod";
            expect_same(program, arrays, sizes, product ? 200 : 8, product ? 0 : t == DType::F64 ? 1e-12 : 1e-4);
          }
        }
      }
    }
  }
}

TEST(CodegenReduce, LongSumsAreExact) {
  const char* kernel = R"(kernel
range p0 parallel 2
range i0 inner EXTENT
vector i0
buffer b0 f32 read
buffer b1 f32 write
stage loop
  %0 = load f32 b0[EXTENT*p0 + i0]
  %1 = accumulate f32 sum %0
stage
  %2 = result f32 %1
  store f32 b1[p0] %2
)";
  for (int64_t n : {10000, 1000003}) {
    Array in = make_array(DType::F32, 2 * n);
    for (int64_t i = 0; i < 2 * n; ++i)
      in.set(i, loops::from_double(DType::F32, 0.1 + 1e-3 * static_cast<double>(i % 17)));
    expect_same(text(kernel, {{"EXTENT", std::to_string(n)}}), {in, make_array(DType::F32, 2)}, {}, 5);
  }
}

TEST(CodegenReduce, NanWinsMaxAndFirstIndexWinsArgmax) {
  const char* kernel = R"(kernel
size s0 >= 1
range p0 parallel 4
range i0 inner s0
vector VECTOR
BLOCK
buffer b0 f32 read
buffer b1 f32 write
buffer b2 i64 write
buffer b3 i64 write
stage loop
  %0 = load f32 b0[p0*s0 + i0]
  %1 = index i64 [i0]
  %2 = accumulate f32 max %0
  %3 = accumulate f32 argmax %0 %1
  %4 = accumulate f32 argmin %0 %1
stage
  %5 = result f32 %2
  %6 = position i64 %3
  %7 = position i64 %4
  store f32 b1[p0] %5
  store i64 b2[p0] %6
  store i64 b3[p0] %7
)";
  for (int64_t n : {1, 5, 16, 50, 333}) {
    Array in = make_array(DType::F32, 4 * n);
    for (int64_t i = 0; i < 4 * n; ++i) in.set(i, loops::from_double(DType::F32, static_cast<double>((i * 37) % 11)));
    for (int64_t i = 0; i < n; ++i) in.set(2 * n + i, loops::from_double(DType::F32, -INFINITY));
    in.set(n + n / 2, loops::from_double(DType::F32, NAN));
    in.set(2 * n - 1, loops::from_double(DType::F32, NAN));
    for (bool columns : {false, true}) {
      expect_same(text(kernel, {{"VECTOR", columns ? "p0" : "i0"}, {"BLOCK", columns ? "block 16" : ""}}),
                  {in, make_array(DType::F32, 4), make_array(DType::I64, 4), make_array(DType::I64, 4)}, {n});
    }
  }
}

TEST(CodegenScan, RowsColumnsAndScalar) {
  const char* kernel = R"(kernel
size s0 >= 1
range p0 parallel 5
range i0 inner s0
VECTOR
buffer b0 TYPE read
buffer b1 TYPE write
stage loop
  %0 = load TYPE b0[p0*s0 + i0]
  %1 = scan TYPE OP %0
  store TYPE b1[p0*s0 + i0] %1
)";
  for (const char* op : {"sum", "max", "min", "prod"}) {
    for (const char* type : {"f64", "i32"}) {
      for (const char* vector : {"", "vector i0", "vector p0\nblock 16"}) {
        for (int64_t n : {1, 15, 16, 17, 100, 257}) {
          DType t = parse_dtype(type);
          bool product = std::string(op) == "prod";
          expect_same(text(kernel, {{"TYPE", type}, {"OP", op}, {"VECTOR", vector}}),
                      {random_array(t, 5 * n, 2), make_array(t, 5 * n)}, {n}, product ? 1000 : 8,
                      product ? 1e-300 : 1e-11);
        }
      }
    }
  }
}

TEST(CodegenScatter, StoreAddCollides) {
  const char* kernel = R"(kernel
size s0 >= 1
range p0 parallel s0
VECTOR
SERIAL
buffer b0 i64 read
buffer b1 TYPE read
buffer b2 TYPE write
stage
  %0 = load i64 b0[p0]
  x0 = indirect %0
  %1 = load TYPE b1[p0]
  storeadd TYPE b2[x0] %1
)";
  for (const char* type : {"f32", "f64", "i32", "i64", "bf16"}) {
    for (const char* serial : {"", "serial"}) {
      for (const char* vector : {"", "vector p0\nblock 64"}) {
        if (std::string(type) == "bf16" && !*serial) continue;
        for (int64_t n : {1, 16, 45, 300}) {
          DType t = parse_dtype(type);
          Array index = make_array(DType::I64, n);
          for (int64_t i = 0; i < n; ++i) index.set(i, {0, (i * i) % 7});
          Array values = make_array(t, n);
          for (int64_t i = 0; i < n; ++i) values.set(i, loops::from_integer(t, i % 3));
          expect_same(text(kernel, {{"TYPE", type}, {"SERIAL", serial}, {"VECTOR", vector}}),
                      {index, values, make_array(t, 7)}, {n});
        }
      }
    }
  }
}

TEST(CodegenRows, ScratchOverTwoInnerRangesAndInPlace) {
  const char* kernel = R"(kernel
range p0 parallel 3
range i0 inner 4
range i1 inner 21
vector i1
buffer b0 f32 write
row r0 bf16
stage loop
  %0 = load f32 b0[84*p0 + 21*i0 + i1]
  %1 = accumulate f32 sum %0
  rowstore bf16 r0 %0
stage
  %2 = result f32 %1
  %3 = const f32 84
  %4 = div f32 %2 %3
stage loop
  %5 = rowload bf16 r0
  %6 = cast f32 %5
  %7 = sub f32 %6 %4
  store f32 b0[84*p0 + 21*i0 + i1] %7
)";
  expect_same(kernel, {random_array(DType::F32, 252, 9)}, {}, 4, 1e-6);
}

TEST(CodegenColumns, NormaliseOverRows) {
  const char* kernel = R"(kernel
size s0 >= 1
range p0 parallel 50
range i0 inner s0
vector p0
block 32
buffer b0 f32 read
buffer b1 f32 read
buffer b2 f32 write
row r0 f32
stage loop
  %0 = load f32 b0[50*i0 + p0]
  %1 = accumulate f32 sum %0
  rowstore f32 r0 %0
stage
  %2 = result f32 %1
  %3 = index f32 [s0]
  %4 = div f32 %2 %3
stage loop
  %5 = rowload f32 r0
  %6 = load f32 b1[p0]
  %7 = sub f32 %5 %4
  %8 = mul f32 %7 %6
  store f32 b2[50*i0 + p0] %8
)";
  for (int64_t n : {1, 2, 40, 200}) {
    expect_same(kernel,
                {random_array(DType::F32, 50 * n, 1), random_array(DType::F32, 50, 2), make_array(DType::F32, 50 * n)},
                {n}, 4, 2e-6);
  }
}

// The guarded loads of the first stage are asked for inside the second one's loop, and belong outside of it.
TEST(CodegenColumns, GuardedLoadsBeforeALoop) {
  const char* kernel = R"(kernel
range p0 parallel 3
range i0 inner 9
vector p0
block 16
buffer b0 f32 read
buffer b1 f32 read
buffer b2 f32 write
stage
  %0 = index i64 [p0]
  %1 = const i64 1
  %2 = ge i64 %0 %1
  %3 = load f32 b0[1] if %2
stage loop
  %4 = load f32 b1[3*i0 + p0] if %2
  %5 = mul f32 %3 %4
  store f32 b2[3*i0 + p0] %5
)";
  expect_same(kernel, {random_array(DType::F32, 2, 1), random_array(DType::F32, 27, 2), make_array(DType::F32, 27)},
              {});
}

TEST(CodegenCache, EqualTextIsCompiledOnceAlsoFromTwoThreads) {
  auto k = scheduled(text(kAdd, {{"SIZE", ""}, {"EXTENT", "12345"}, {"BLOCK", "64"}}));
  std::vector<Request> requests = {{loops::print(*k), "a"}, {loops::print(*k), "b"}};
  std::vector<Result> first, second;
  std::thread a([&] { first = compile(requests, host_target(), {}); });
  std::thread b([&] { second = compile(requests, host_target(), {}); });
  a.join();
  b.join();
  EXPECT_EQ(first[0].object, first[1].object);
  EXPECT_EQ(first[0].object, second[0].object);
  EXPECT_EQ(machine::load(*first[0].object), machine::load(*second[0].object));
  EXPECT_GT(host_target().vector_bytes, 0);
}

}  // namespace
}  // namespace vesta::codegen::testing
