// The CUDA C++ of kernels, run on the CPU, against the interpreter of the kernels.
#include "codegen_prims.h"
#include "cuda_cases.h"

namespace vesta::codegen::testing {
namespace {

// All schedules that a GPU would measure compute the same: rows in registers or shared memory, columns, tiles, ...
TEST(CudaOnHost, OtherSchedules) {
  std::vector<Case> cases;
  for (const auto& [rows, columns] : {std::pair(9, 96), {2, 4096}, {2, 9001}, {3, 33}})
    add_plan(cases, softmax_text(rows, columns), 300);
  for (const char* dtype : {"bf16", "f64"}) {
    std::string text = softmax_text(3, 520, dtype);
    text.replace(text.find("\"x\""), 3, "\"x\" aligned 16");
    add_plan(cases, text, 300, 1e-2);
    add_plan(cases,
             fmt::format("input %0 : {0}[{1}]@D = argument \"x\" aligned 16\n%1 : {0}[{1}]@D = aten::tanh(%0)\n"
                         "output %1\n",
                         dtype, 1 << 12),
             4, 1e-2);
  }
  add_plan(cases,
           "input %0 : f32[300, 70]@D = argument \"x\"\n%1 : f32[70]@D = aten::sum.dim_IntList(%0, [0], false)\n"
           "output %1\n",
           60, 1e-2);
  for (const char* op : {"sum.dim_IntList(%0, [0], false)", "logsumexp(%0, [0], false)"})
    add_decomposed(cases,
                   fmt::format("input %0 : f32[300, 64]@D = argument \"x\" aligned 16\n%1 : f32[64]@D = aten::{}\n"
                               "output %1\n",
                               op),
                   60, 1e-2);
  add_plan(cases,
           "input %0 : f32[70, 300]@D = argument \"x\"\n%1 : i64[300]@D = aten::argmax(%0, 0, false)\noutput %1\n", 0);
  add_plan(cases,
           "input %0 : f32[17, 90]@D = argument \"x\"\n%1 : f32[90, 17]@D = aten::t(%0)\n%2 : f32[90, 17]@D = "
           "aten::tanh(%1)\noutput %2\n",
           4);
  const size_t planned = cases.size();
  add_other_schedules(cases);
  EXPECT_GT(cases.size(), planned + 80);
  expect_same(std::move(cases));
}

TEST(CudaOnHost, RowsColumnsAndWholes) {
  std::vector<Case> cases;
  for (const auto& [rows, columns] : {std::pair(40, 96), {3, 4096}, {2, 9001}, {5, 700}, {9, 1}, {7, 33}, {1, 1025}})
    add_plan(cases, softmax_text(rows, columns), 300);
  add_plan(cases, softmax_text(6, 200, "bf16"), 2, 1e-2);
  for (const char* dtype : {"f32", "bf16", "f16", "f64"})
    for (const auto& [rows, columns] : {std::pair(40, 96), {3, 4096}, {70, 520}}) {
      std::string text = softmax_text(rows, columns, dtype);
      text.replace(text.find("\"x\""), 3, "\"x\" aligned 16");
      add_plan(cases, text, 300, std::string(dtype) == "f32" || std::string(dtype) == "f64" ? 1e-6 : 1e-2);
      add_plan(cases,
               fmt::format(
                   "input %0 : {0}[{1}]@D = argument \"x\" aligned 16\n%1 : {0}[{1}]@D = aten::tanh(%0)\noutput %1\n",
                   dtype, rows * columns * 40),
               4, 1e-2);
    }
  for (const auto& [rows, columns] : {std::pair(700, 300), {40, 33}, {9000, 64}})
    for (const char* dtype : {"f32", "bf16", "i64"})
      add_plan(cases,
               fmt::format("input %0 : {0}[{1}, {2}]@D = argument \"x\"\n%1 : {0}[{2}]@D = aten::sum.dim_IntList(%0, "
                           "[0], false)\noutput %1\n",
                           dtype, rows, columns),
               60, std::string(dtype) == "f32" ? 1e-2 : 1);
  add_plan(cases,
           "input %0 : f32[70, 300]@D = argument \"x\"\n%1 : i64[300]@D = aten::argmax(%0, 0, false)\noutput %1\n", 0);
  for (const char* op : {"sum.dim_IntList", "amax", "amin"})
    for (const char* dims : {"[0]", "[1]", "[0, 1]"}) {
      const std::string out = std::string(dims) == "[0]" ? "[300]" : std::string(dims) == "[1]" ? "[17]" : "[]";
      add_plan(
          cases,
          fmt::format("input %0 : f32[17, 300]@D = argument \"x\"\n%1 : f32{}@D = aten::{}(%0, {}, false)\noutput %1\n",
                      out, op, dims),
          50, 1e-3);
    }
  for (const char* op : {"argmax", "argmin"})
    add_plan(
        cases,
        fmt::format("input %0 : f32[17, 300]@D = argument \"x\"\n%1 : i64[17]@D = aten::{}(%0, 1, false)\noutput %1\n",
                    op),
        0);
  add_plan(
      cases,
      "input %0 : i64[17, 30]@D = argument \"x\"\n%1 : i64[17]@D = aten::sum.dim_IntList(%0, [1], false)\noutput %1\n",
      0);
  add_plan(cases,
           "input %0 : f32[17, 300]@D = argument \"x\"\n%1 : f32[300, 17]@D = aten::t(%0)\n%2 : f32[300, 17]@D = "
           "aten::tanh(%1)\noutput %2\n",
           4);
  expect_same(std::move(cases));
}

TEST(CudaOnHost, AttentionOfOneQuery) {
  std::vector<Case> cases;
  for (const vesta::testing::DecodeStep& s : {
           vesta::testing::DecodeStep{.heads = 2, .shared = 2, .keys = 1, .size = 64},
           {.heads = 2, .shared = 1, .keys = 37, .size = 80, .dtype = "bf16", .op = "flash"},
           {.heads = 8, .shared = 2, .keys = 200, .size = 128, .dtype = "f16", .mask = "1, 1, 1, 200"},
           {.heads = 4,
            .shared = 2,
            .keys = 1000,
            .size = 64,
            .dtype = "bf16",
            .mask = "1, 4, 1, 1000",
            .repeated = true},
           {.batch = 3, .heads = 4, .shared = 4, .keys = 129, .size = 64, .op = "efficient"},
       }) {
    const auto g = on_device("cuda:0", vesta::testing::attention_text(s));
    const Options user;
    graph::run_passes(*g, {.options = user, .device = DeviceType::CUDA}, true);
    add_plan(cases, *g, 300, s.dtype == "f32" ? 1e-4 : 1e-2);
  }
  EXPECT_EQ(cases.size(), 10u);
  expect_same(std::move(cases));
}

// Rows of several tensors, a loop for those of each.
TEST(CudaOnHost, RowsOfPieces) {
  std::vector<Case> cases;
  for (const char* dtype : {"f32", "bf16", "f16", "f64"}) {
    const auto g = on_device("cuda:0", vesta::testing::projections_text(dtype));
    const Options user;
    graph::run_passes(*g, {.options = user, .device = DeviceType::CUDA}, true);
    add_plan(cases, *g, 300, std::string_view(dtype).ends_with("16") ? 1 : 1e-2);
    add_plan(cases,
             fmt::format(R"(input %0 : {0}[30, 4096]@D = argument "x" aligned 16
input %1 : {0}[7, 4096]@D = argument "y" aligned 16
%2 : {0}[37, 4096]@D = aten::cat([%0, %1], 0)
%3 : {0}[37, 1]@D = aten::amax(%2, [1], true)
%4 : {0}[37, 4096]@D = aten::sub.Tensor(%2, %3)
%5 : {0}[37, 4096]@D = aten::exp(%4)
%6 : {0}[37, 1]@D = aten::sum.dim_IntList(%5, [1], true)
%7 : {0}[37, 4096]@D = aten::div.Tensor(%5, %6)
output %7
)",
                         dtype),
             300, std::string_view(dtype).ends_with("16") ? 1e-2 : 1e-5);
  }
  expect_same(std::move(cases));
}

// Numbers in the CPU's memory are arguments.
TEST(CudaOnHost, Arguments) {
  std::vector<Case> cases;
  for (const char* dtype : {"f32", "f64", "bf16", "f16", "i64", "i32", "u8", "bool"}) {
    for (const char* of : {"f32", "bf16", "f64"})
      add_plan(cases,
               fmt::format("input %0 : {0}[40, 96]@D = argument \"x\" aligned 16\ninput %1 : {1}[] = argument \"s\"\n"
                           "%2 : {0}[40, 96]@D = aten::mul.Tensor(%0, %1)\n%3 : {0}[40, 96]@D = aten::tanh(%2)\n"
                           "output %3\n",
                           of, dtype),
               4, 1e-2);
    add_plan(cases,
             fmt::format("input %0 : f32[40, 96]@D = argument \"x\"\ninput %1 : {0}[] = argument \"s\"\n"
                         "%2 : f32[40, 96]@D = aten::mul.Tensor(%0, %1)\n%3 : f32[40]@D = aten::sum.dim_IntList(%2, "
                         "[1], false)\noutput %3\n",
                         dtype),
             60, 1e-3);
  }
  EXPECT_EQ(cases.size(), 32u);
  for (const Case& c : cases)
    EXPECT_TRUE(std::any_of(c.kernel->buffers.begin(), c.kernel->buffers.end(), [](const auto& b) { return b.value; }));
  expect_same(std::move(cases));
}

TEST(CudaOnHost, RowsInSharedMemory) {
  std::vector<Case> cases;
  for (const char* dtype : {"f32", "bf16", "f16", "f64"})
    for (const char* aligned : {"", " aligned 16"})
      for (const int columns : {17001, 18000}) {
        std::string text = softmax_text(2, columns, dtype);
        text.replace(text.find("\"x\""), 3, std::string("\"x\"") + aligned);
        add_plan(cases, text, 300, std::string_view(dtype).starts_with("f") ? 1e-4 : 1e-2, 80);
        const loops::Kernel& k = *cases.back().kernel;
        EXPECT_TRUE(k.threads.shared) << loops::print(k);
        EXPECT_FALSE(k.row_slots.empty());
        // Rows are copied where elements side by side are aligned.
        const bool copied = cuda_source(k, "k").find(" copy_to_row<16>(r0 + at, b0 + ") != std::string::npos;
        EXPECT_EQ(copied, columns == 18000 && *aligned) << cuda_source(k, "k");
      }
  expect_same(std::move(cases));
}

// Rows at places that an index tensor names, several elements of a thread's at once.
TEST(CudaOnHost, RowsAtPlacesAreTakenTogether) {
  std::vector<Case> cases;
  const auto text_of = [&](size_t from) {
    std::string all;
    for (size_t k = from; k < cases.size(); ++k) all += cuda_source(*cases[k].kernel, "k");
    return all;
  };
  for (const int columns : {1024, 1022, 1023, 1}) {
    const int rows = 400 * 1024 / columns;
    for (const char* dtype : {"f32", "bf16", "f64"}) {
      size_t before = cases.size();
      add_plan(
          cases,
          fmt::format("input %0 : {0}[5, {2}]@D = parameter \"w\" aligned 16\ninput %1 : i64[{1}]@D = argument "
                      "\"i\"\ninput %2 : {0}[{1}, {2}]@D = argument \"x\" aligned 16\n%3 : {0}[{1}, {2}]@D = "
                      "aten::embedding(%0, %1, -1, false, false)\n%4 : {0}[{1}, {2}]@D = aten::mul.Tensor(%3, %2)\n"
                      "output %4\n",
                      dtype, rows, columns),
          1, std::string(dtype) == "bf16" ? 1e-2 : 1e-6);
      // For both operands and the result.
      if (columns == 1024) {
        EXPECT_EQ(cases.back().kernel->threads.each * element_size(parse_dtype(dtype)), 16);
      }
      const std::string text = text_of(before);
      const auto packs = [&] {
        int n = 0;
        for (size_t at = 0; (at = text.find("*(const Pack<", at)) != std::string::npos; ++at) ++n;
        return n;
      };
      if (columns == 1024) {
        EXPECT_EQ(packs(), 2) << text;
      }
      before = cases.size();
      add_plan(cases,
               fmt::format("input %0 : {0}[5, {2}]@D = argument \"x\"\ninput %1 : i64[{1}]@D = argument \"i\"\ninput "
                           "%2 : {0}[{1}, {2}]@D = argument \"y\" aligned 16\n%3 : f32[5, {2}]@D = "
                           "aten::_to_copy(%0, dtype=dtype.f32)\n%4 : f32[{1}, {2}]@D = aten::_to_copy(%2, "
                           "dtype=dtype.f32)\n%5 : f32[5, {2}]@D = aten::index_add(%3, 0, %1, %4)\noutput %5\n",
                           dtype, rows, columns),
               400, 2e-2);
      EXPECT_EQ(text_of(before).find("add_all") != std::string::npos, columns == 1024 || columns == 1022);
    }
  }
  // Places that differ along the row are each element's own.
  add_plan(
      cases,
      "input %0 : f32[5, 1024]@D = argument \"x\" aligned 16\ninput %1 : i64[400, 1024]@D = argument \"i\" aligned "
      "16\ninput %2 : f32[400, 1024]@D = argument \"y\" aligned 16\n%3 : f32[5, 1024]@D = aten::scatter_add(%0, 0, "
      "%1, %2)\noutput %3\n",
      400, 2e-2);
  add_plan(
      cases,
      "input %0 : f32[5, 1024]@D = argument \"x\" aligned 16\ninput %1 : i64[400, 1024]@D = argument \"i\" aligned "
      "16\ninput %2 : f32[400, 1024]@D = argument \"y\" aligned 16\n%3 : f32[400, 1024]@D = aten::gather(%0, 0, "
      "%1)\n%4 : f32[400, 1024]@D = aten::mul.Tensor(%2, %3)\noutput %4\n",
      1);
  expect_same(std::move(cases));
}

// Every thread adds to few places.
TEST(CudaOnHost, AdditionsCollide) {
  std::vector<Case> cases;
  for (const char* dtype : {"f32", "f64", "i32", "i64"})
    for (const auto& [rows, columns] : {std::pair(700, 3), {33, 300}, {5, 1}, {0, 70}}) {
      add_plan(cases,
               fmt::format("input %0 : {0}[5, {2}]@D = argument \"x\"\ninput %1 : i64[{1}]@D = argument \"i\"\n"
                           "input %2 : {0}[{1}, {2}]@D = argument \"y\"\n%3 : {0}[5, {2}]@D = aten::index_add(%0, 0, "
                           "%1, %2)\noutput %3\n",
                           dtype, rows, columns),
               64, 1e-3);
      add_plan(cases,
               fmt::format("input %0 : {0}[{2}, 9]@D = argument \"x\"\ninput %1 : i64[{2}, {1}]@D = argument \"i\"\n"
                           "input %2 : {0}[{2}, {1}]@D = argument \"y\"\n%3 : {0}[{2}, 9]@D = aten::scatter_add(%0, "
                           "1, %1, %2)\noutput %3\n",
                           dtype, rows, columns),
               64, 1e-3);
    }
  EXPECT_GT(std::count_if(cases.begin(), cases.end(),
                          [](const Case& c) { return c.name.find("storeadd") != std::string::npos; }),
            23);
  expect_same(std::move(cases));
}

// Running values along rows of every length against a team's, and down columns; what comes before, behind and of them.
TEST(CudaOnHost, Scans) {
  std::vector<Case> cases;
  const auto scan = [&](const char* op, const char* dtype, int64_t rows, int64_t columns, int dim, const char* aligned,
                        const char* result) {
    add_plan(cases,
             fmt::format("input %0 : {1}[{2}, {3}]@D = argument \"x\"{5}\n%1 : {6}[{2}, {3}]@D = aten::{0}(%0, {4})\n"
                         "output %1\n",
                         op, dtype, rows, columns, dim, aligned, result),
             64, std::string(dtype) == "f32" || std::string(dtype) == "f64" ? 1e-3 : 1);
  };
  for (const auto& [rows, columns] : {std::pair(300, 1),
                                      {5, 0},
                                      {0, 70},
                                      {300, 7},
                                      {70, 64},
                                      {40, 96},
                                      {300, 1000},
                                      {3, 1024},
                                      {3, 1028},
                                      {2, 9001},
                                      {1, 5000}})
    for (const int dim : {0, 1})
      for (const char* aligned : {"", " aligned 16"}) {
        scan("cumsum", "f32", rows, columns, dim, aligned, "f32");
        scan("cumsum", "bf16", rows, columns, dim, aligned, "bf16");
        scan("cumsum", "i32", rows, columns, dim, aligned, "i64");
        scan("cumprod", "f64", rows, columns, dim, aligned, "f64");
      }
  const size_t scans = cases.size();
  EXPECT_EQ(scans, 9u * 16);  // none of nothing
  // Places of the greatest; several scans in a loop.
  for (const auto& [rows, columns] : {std::pair(300, 7), {40, 96}, {3, 1028}, {2, 9001}})
    for (const char* dtype : {"f32", "i64", "bf16", "u8", "bool"})
      for (const char* op : {"cummax", "cummin"})
        add_plan(cases,
                 fmt::format("input %0 : {0}[{1}, {2}]@D = argument \"x\" aligned 16\n%1 : {0}[{1}, {2}]@D, %2 : "
                             "i64[{1}, {2}]@D = aten::{3}(%0, 1)\noutput %1\noutput %2\n",
                             dtype, rows, columns, op),
                 0);
  EXPECT_EQ(cases.size(), scans + 40);
  // A sum of the row in the same loop, a gather, a normalisation that needs the scan again, a symbolic length.
  for (const auto& [rows, columns] : {std::pair(300, 7), {70, 64}, {40, 100}, {3, 1028}, {2, 9001}}) {
    const size_t before = cases.size();
    add_plan(cases,
             fmt::format(R"(input %0 : f32[{0}, {1}]@D = argument "x"
input %1 : i64[{0}, {1}]@D = argument "i"
input %2 : f32[5]@D = argument "w"
%3 : f32[{0}, {1}]@D = aten::index.Tensor(%2, [%1])
%4 : f32[{0}, {1}]@D = aten::mul.Tensor(%0, %3)
%5 : f32[{0}, {1}]@D = aten::cumsum(%4, 1)
%6 : f32[{0}, 1]@D = aten::sum.dim_IntList(%4, [1], true)
%7 : f32[{0}, {1}]@D = aten::div.Tensor(%5, %6)
%8 : f32[{0}, {1}]@D = aten::mul.Tensor(%7, %0)
output %8
)",
                         rows, columns),
             2000, 1);
    EXPECT_EQ(cases.size(), before + 1);
    add_plan(cases,
             fmt::format(R"(symbol s0 = {1}, at least 2
source s0 = size 1 of input 0
input %0 : f32[{0}, s0]@D = argument "x"
%1 : f32[{0}, s0]@D = aten::cumsum(%0, 1)
%2 : f32[{0}, s0]@D = aten::exp(%1)
output %1
output %2
)",
                         rows, columns),
             2000, 1e-3);
  }
  // Rows that are kept when they are scanned, in registers and in shared memory; what is scanned in place.
  for (const char* dtype : {"f32", "bf16"})
    for (const int columns : {100, 1000, 20000}) {
      const size_t before = cases.size();
      add_plan(cases,
               fmt::format(R"(input %0 : {0}[3, {1}]@D = argument "x" aligned 16
%1 : {0}[3, {1}]@D = aten::cumsum(%0, 1)
%2 : {0}[3, 1]@D = aten::amax(%1, [1], true)
%3 : {0}[3, {1}]@D = aten::sub.Tensor(%1, %2)
output %3
)",
                           dtype, columns),
               64, std::string(dtype) == "f32" ? 1e-2 : 2);
      EXPECT_EQ(cases.size(), before + 1);
      EXPECT_FALSE(cases.back().kernel->row_slots.empty());
      EXPECT_EQ(cases.back().kernel->threads.shared, columns == 20000);
      add_plan(cases,
               fmt::format("input %0 : {0}[3, {1}]@D = argument \"x\"\n%1 : {0}[3, {1}]@D = aten::cumsum(%0, 1)\n"
                           "mutate input 0 = %1\n",
                           dtype, columns + 3),
               64, std::string(dtype) == "f32" ? 1e-2 : 2);
      EXPECT_EQ(cases.back().arrays.size(), 1u);
    }
  expect_same(std::move(cases));
}

// Many threads go down each column, in rounds.
TEST(CudaOnHost, ColumnsAreScannedTogether) {
  std::vector<Case> cases;
  for (const char* dtype : {"f32", "bf16", "f64", "i32"})
    for (const auto& [rows, columns] : {std::pair(1024, 70), {4096, 16}, {1000, 5}, {333, 64}})
      add_plan(cases,
               fmt::format("input %0 : {0}[{1}, {2}]@D = argument \"x\" aligned 16\n%1 : {3}[{1}, {2}]@D = "
                           "aten::cumsum(%0, 0)\n%2 : {3}[{1}, {2}]@D = aten::mul.Tensor(%1, 2)\noutput %2\n",
                           dtype, rows, columns, std::string_view(dtype) == "i32" ? "i64" : dtype),
               300, std::string_view(dtype) == "bf16" ? 1 : 1e-2);
  // Batches of columns, the place of the greatest, and a column that is needed again.
  add_plan(cases,
           "input %0 : f32[3, 512, 20]@D = argument \"x\"\n%1 : f32[3, 512, 20]@D = aten::cumsum(%0, 1)\noutput %1\n",
           300, 1e-2);
  add_plan(cases,
           "input %0 : f32[512, 20]@D = argument \"x\"\n%1 : f32[512, 20]@D, %2 : i64[512, 20]@D = aten::cummax(%0, "
           "0)\noutput %1\noutput %2\n",
           0);
  add_plan(cases,
           "input %0 : f32[512, 20]@D = argument \"x\"\n%1 : f32[512, 20]@D = aten::cumsum(%0, 0)\nmutate input 0 = "
           "%1\n",
           300, 1e-2);
  for (const Case& c : cases) EXPECT_TRUE(c.kernel->threads.across && c.kernel->threads.team > 1) << c.name;
  add_other_schedules(cases);
  expect_same(std::move(cases));
}

// Neighbouring blocks that share a row tell each other their sums, maxima and places.
TEST(CudaOnHost, RowsOfSeveralBlocks) {
  std::vector<Case> cases;
  for (const auto& [rows, columns] : {std::pair(2, 16640), {1, 20001}})
    for (const char* dtype : {"f32", "bf16", "f64"}) {
      const bool narrow = std::string_view(dtype) == "bf16";
      std::string text = softmax_text(rows, columns, dtype);
      text.replace(text.find("\"x\""), 3, "\"x\" aligned 16");
      add_plan(cases, text, 300, narrow ? 1e-2 : 1e-6);
      add_decomposed(cases,
                     fmt::format("input %0 : {0}[{1}, {2}]@D = argument \"x\" aligned 16\n%1 : {0}[{1}, {2}]@D, _, _ = "
                                 "aten::native_layer_norm(%0, [{2}], none, none, 1e-05)\noutput %1\n",
                                 dtype, rows, columns),
                     300, narrow ? 1e-2 : 1e-4);
    }
  for (const char* op : {"argmax", "argmin"})
    add_plan(cases,
             fmt::format("input %0 : f32[2, 70000]@D = argument \"x\"\n%1 : i64[2]@D = aten::{}(%0, 1, false)\noutput "
                         "%1\n",
                         op),
             0);
  add_decomposed(cases,
                 "input %0 : f32[2, 60000]@D = argument \"x\" aligned 16\n%1 : f32[2]@D = aten::logsumexp(%0, [1], "
                 "false)\n%2 : f32[2]@D = aten::sum.dim_IntList(%0, [1], false)\noutput %1\noutput %2\n",
                 300, 1e-2);
  add_decomposed(cases,
                 "input %0 : f32[2, 60000]@D = argument \"x\" aligned 16\n%1 : f32[2]@D, %2 : f32[2]@D = "
                 "aten::var_mean.correction(%0, [1], correction=1, keepdim=false)\noutput %1\noutput %2\n",
                 300, 1e-3);
  for (const Case& c : cases) EXPECT_GT(c.kernel->threads.parts, 1) << c.name;
  expect_same(std::move(cases));
}

// Every number of blocks, threads and elements.
TEST(CudaOnHost, PartsOfRows) {
  std::vector<Case> cases;
  add_plan(cases, softmax_text(3, 1000), 300);
  add_plan(cases,
           "input %0 : f32[3, 1000]@D = argument \"x\"\n%1 : f32[3]@D = aten::sum.dim_IntList(%0, [1], false)\noutput "
           "%1\n",
           300, 1e-3);
  const size_t planned = cases.size();
  for (size_t i = 0; i < planned; ++i)
    for (const int64_t parts : {2, 4, 8})
      for (const int64_t block : {32, 64, 128})
        for (const int64_t each : {1, 4})
          for (const bool shared : {false, true}) {
            Case c{cases[i].name,    loops::parse_kernel(cases[i].name), cases[i].arrays, cases[i].sizes, cases[i].ulps,
                   cases[i].absolute};
            loops::Threads& t = c.kernel->threads;
            const bool kept = !c.kernel->row_slots.empty();
            t = {.block = block, .team = block, .each = each, .shared = shared && kept, .parts = parts};
            if (kept && !shared) t.held = (1000 + parts * block * each - 1) / (parts * block * each);
            c.name = print(*c.kernel);
            cases.push_back(std::move(c));
          }
  EXPECT_EQ(cases.size(), planned + 72);
  expect_same(std::move(cases));
}

// 1 + erf(x), as in GELU, is as exact as the sum of the two.
TEST(CudaOnHost, OnePlusErf) {
  std::vector<Case> cases;
  add_plan(cases,
           "input %0 : f32[4096]@D = argument \"x\"\n%1 : f32[4096]@D = aten::erf(%0)\n%2 : f32[4096]@D = "
           "aten::add.Scalar(%1, 1)\noutput %2\n",
           0, 2e-7);
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_NE(cuda_source(*cases[0].kernel, "k").find("one_plus_erf("), std::string::npos);
  Array& x = cases[0].arrays.at(0);
  for (int64_t i = 0; i < x.size(); ++i) x.set(i, loops::from_double(x.dtype, static_cast<double>(i - 2048) / 300));
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& [at, v] : {std::pair(0, infinity), {1, -infinity}, {2, infinity - infinity}, {3, 1e30}, {4, -1e30}})
    x.set(at, loops::from_double(x.dtype, v));
  expect_same(std::move(cases));
}

TEST(CudaOnHost, EmptyRowsAndNoRows) {
  std::vector<Case> cases;
  for (const char* dtype : {"f32", "bf16", "i64"})
    add_plan(
        cases,
        fmt::format("input %0 : {0}[5, 0]@D = argument \"x\"\ninput %1 : {0}[5]@D = argument \"y\"\n%2 : {0}[5]@D = "
                    "aten::sum.dim_IntList(%0, [1], false)\n%3 : {0}[5]@D = aten::add.Tensor(%2, %1)\noutput %3\n",
                    dtype),
        0);
  add_plan(cases, softmax_text(0, 70), 0);
  EXPECT_FALSE(cases.empty());
  expect_same(std::move(cases));
}

// Loads that are contiguous along another range than the stores go through tiles. The last tiles are incomplete.
TEST(CudaOnHost, Tiles) {
  std::vector<Case> cases;
  for (const char* dtype : {"f32", "bf16", "f64", "i64", "bool", "u8"})
    for (const auto& [rows, columns] : {std::pair(300, 70), {33, 9}, {64, 128}, {1000, 8}}) {
      add_plan(cases,
               fmt::format("input %0 : {0}[{1}, {2}]@D = argument \"x\"\n%1 : {0}[{2}, {1}]@D = aten::t(%0)\n%2 : "
                           "{0}[{2}, {1}]@D = aten::clone(%1, memory_format=format.contiguous)\noutput %2\n",
                           dtype, rows, columns),
               0, 0);
      EXPECT_EQ(cases.back().kernel->tile.loads.size(), 1u) << loops::print(*cases.back().kernel);
    }
  // Two that cross and one that does not; a batch; a row that is not next to the column.
  add_plan(cases, R"(input %0 : f32[3, 16, 40, 70]@D = argument "x"
input %1 : bf16[3, 16, 40, 70]@D = argument "y"
input %2 : f32[3, 40, 70, 16]@D = argument "z"
%3 : f32[3, 40, 70, 16]{44800, 70, 1, 2800}@D = aten::permute(%0, [0, 2, 3, 1])
%4 : bf16[3, 40, 70, 16]{44800, 70, 1, 2800}@D = aten::permute(%1, [0, 2, 3, 1])
%5 : f32[3, 40, 70, 16]@D = aten::mul.Tensor(%2, %3)
%6 : f32[3, 40, 70, 16]@D = aten::add.Tensor(%5, %4, alpha=1)
output %6
)",
           1);
  EXPECT_EQ(cases.back().kernel->tile.loads.size(), 2u);
  add_plan(cases, R"(symbol s0 = 70, at least 2
symbol s1 = 50, at least 2
source s0 = size 1 of input 0
source s1 = size 2 of input 0
input %0 : f32[4, s0, s1]@D = argument "x"
%1 : f32[s1, 4, s0]{1, s0*s1, s1}@D = aten::permute(%0, [2, 0, 1])
%2 : f32[s1, 4, s0]@D = aten::clone(%1, memory_format=format.contiguous)
output %2
)",
           0);
  EXPECT_EQ(cases.back().kernel->tile.loads.size(), 1u);
  expect_same(std::move(cases));
}

// Tiles of an odd number of rows, which lie together in memory: aligned for wide accesses or not, with an incomplete
// last tile, together with a load that does not cross, and with a symbolic number of columns.
TEST(CudaOnHost, TilesThatLieTogether) {
  std::vector<Case> cases;
  const auto add = [&](const std::string& text, size_t loads) {
    add_plan(cases, text, 0);
    EXPECT_TRUE(cases.back().kernel->tile.lies_together()) << loops::print(*cases.back().kernel);
    EXPECT_EQ(cases.back().kernel->tile.loads.size(), loads) << loops::print(*cases.back().kernel);
  };
  for (const char* dtype : {"f32", "bf16", "f64", "u8"})
    for (const auto& [out, in, side] : {std::tuple(5, 64, 3), {3, 50, 3}, {2, 700, 5}, {2, 40, 7}, {1, 31, 3}})
      add(fmt::format(
              "input %0 : {0}[{1}, {2}, {3}, {3}]@D = argument \"w\"\n%1 : {0}[{1}, {2}, {3}, {3}]{{{4}, 1, {5}, "
              "{2}}}@D = aten::clone(%0, memory_format=format.channels_last)\noutput %1\n",
              dtype, out, in, side, in * side * side, in * side),
          1);
  add(R"(input %0 : bf16[6, 64, 3, 3]@D = argument "x"
input %1 : f32[6, 64, 3, 3]@D = argument "y"
input %2 : f32[6, 64, 3, 3]{576, 1, 192, 64}@D = argument "z"
%3 : f32[6, 64, 3, 3]{576, 1, 192, 64}@D = aten::add.Tensor(%2, %0, alpha=2)
%4 : f32[6, 64, 3, 3]{576, 1, 192, 64}@D = aten::mul.Tensor(%3, %1)
output %4
)",
      2);
  add(R"(symbol s0 = 70, at least 2
source s0 = size 1 of input 0
input %0 : f32[4, s0, 3]@D = argument "x"
%1 : f32[4, 3, s0]{3*s0, 1, 3}@D = aten::transpose.int(%0, 1, 2)
%2 : f32[4, 3, s0]@D = aten::clone(%1, memory_format=format.contiguous)
output %2
)",
      1);
  expect_same(std::move(cases));
}

TEST(CudaOnHost, EveryPrimitiveInEveryType) {
  std::vector<Case> cases;
  const int64_t n = 333;
  for (int prim = 0; prim < kPrimCount; ++prim) {
    const Prim p = static_cast<Prim>(prim);
    for (const DType t : kComputedTypes) {
      if (!is_defined(p, t)) continue;
      Case c{fmt::format("{} {}", name(p), name(t)), nullptr, operands(p, t, n), {n}, prim_ulps(p), 0};
      c.kernel = loops::parse_kernel(kernel_for(p, t, "threads 128 team 1 held 0 each 1\n"));
      // Differences between compilers for the CPU and for GPUs do not matter here.
      if (is_float(t) && c.ulps > 0) c.ulps = 64, c.absolute = 1e-30;
      cases.push_back(std::move(c));
    }
  }
  expect_same(std::move(cases));
}

// Rows are divided by multiplication: of the least, the greatest and what is no number too.
TEST(CudaOnHost, RowsDividedByOneNumber) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> numbers = {0,      -0.0F,  1,     -3,    7,     1e-45F,  1e-42F, 3e-39F, 1.2e-38F,
                                1e-30F, 1e-20F, 1e20F, 1e30F, 1e38F, 3.4e38F, inf,    -inf,   nan};
  for (int i = 0; i < 46; ++i)
    numbers.push_back(std::ldexp(1.0F + static_cast<float>(i * 37 % 101) / 101.0F, i * 5 - 120));
  const auto n = static_cast<int64_t>(numbers.size());
  auto k = loops::parse_kernel(fmt::format(R"(kernel
range p0 parallel {0}
range i0 inner {0}
threads 64 team 32 held 0 each 1
buffer b0 f32 read
buffer b1 f32 write
stage
  %0 = load f32 b0[p0]
stage loop
  %1 = load f32 b0[i0]
  %2 = div f32 %1 %0
  store f32 b1[{0}*p0 + i0] %2
)",
                                           n));
  loops::verify(*k);
  HostKernels host({k.get()});
  std::vector<float> out(static_cast<size_t>(n * n), -1);
  EXPECT_TRUE(host.run(0, *k, {numbers.data(), out.data()}, {}, n));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const float x = numbers[static_cast<size_t>(j)], y = numbers[static_cast<size_t>(i)], q = x / y;
      const float got = out[static_cast<size_t>(i * n + j)];
      if (std::isnan(q)) {
        EXPECT_TRUE(std::isnan(got)) << x << " / " << y << ": " << got;
      } else if (std::isinf(q) || q == 0) {
        // At the ends a unit in the last place may be all of it.
        EXPECT_TRUE(got == q || std::abs(got) <= 3e-45F || std::abs(got) >= 3.4e38F) << x << " / " << y << ": " << got;
        EXPECT_EQ(std::signbit(got), std::signbit(q)) << x << " / " << y;
      } else {
        EXPECT_LE(std::abs(got - q), 1.5 * (std::nextafter(std::abs(q), inf) - std::abs(q))) << x << " / " << y;
      }
    }
}

TEST(CudaOnHost, EveryConversion) {
  std::vector<Case> cases;
  for (const DType from : types_on_gpus())
    for (const DType to : types_on_gpus()) {
      Case c{fmt::format("{} to {}", name(from), name(to)),
             loops::parse_kernel(conversion(from, to, "threads 64 team 1 held 0 each 1\n")),
             {convertible(from, to, 100), make_array(to, 100)},
             {100},
             0,
             0};
      cases.push_back(std::move(c));
    }
  expect_same(std::move(cases));
}

// Quantising by one scale and by rows' own, and back; as much as threads take at once and less.
TEST(CudaOnHost, Float8Programs) {
  std::vector<Case> cases;
  for (const char* dtype : {"f32", "bf16"})
    for (const char* to : {"f8e4m3fn", "f8e5m2", "f8e4m3fnuz"})
      for (const int columns : {33, 512, 5000}) {
        add_plan(cases,
                 fmt::format(R"(input %0 : {0}[5, {2}]@D = argument "x"
%1 : {0}[5, {2}]@D = aten::abs(%0)
%2 : {0}[5, 1]@D = aten::amax(%1, [1], true)
%3 : f32[5, 1]@D = aten::_to_copy(%2, dtype=dtype.f32)
%4 : f32[5, 1]@D = aten::div.Tensor(%3, 448)
%5 : f32[5, {2}]@D = aten::div.Tensor(%0, %4)
%6 : {1}[5, {2}]@D = aten::_to_copy(%5, dtype=dtype.{1})
output %6
output %4
)",
                             dtype, to, columns),
                 1);
        add_plan(cases,
                 fmt::format(R"(input %0 : {1}[5, {2}]@D = argument "x"
input %1 : f32[5, 1]@D = argument "scale"
%2 : {0}[5, {2}]@D = aten::_to_copy(%0, dtype=dtype.{0})
%3 : f32[5, {2}]@D = aten::mul.Tensor(%2, %1)
%4 : {1}[5, {2}]@D = aten::clone(%0)
output %3
output %4
)",
                             dtype, to, columns),
                 1);
      }
  expect_same(std::move(cases));
}

// Every float of 16 bits, and what lies between two neighbours of a float8 type, and just beside that.
TEST(CudaOnHost, Float8OfEverything) {
  std::vector<Case> cases;
  for (const DType to : kFloat8Types) {
    std::vector<float> x;
    for (uint32_t u = 0; u < 65536; ++u) x.push_back(std::bit_cast<float>(u << 16));
    for (uint32_t u = 0; u < 65536; ++u) {
      const auto half = static_cast<uint16_t>(u);
      x.push_back(static_cast<float>(loops::load(DType::F16, &half).f));
    }
    for (int b = 0; b < 255; ++b) {
      const uint8_t low = static_cast<uint8_t>(b), high = static_cast<uint8_t>(b + 1);
      const auto middle = static_cast<float>((loops::load(to, &low).f + loops::load(to, &high).f) / 2);
      for (const float near : {std::nextafter(middle, -INFINITY), middle, std::nextafter(middle, INFINITY)})
        x.push_back(near);
    }
    const auto n = static_cast<int64_t>(x.size());
    Array from = make_array(DType::F32, n);
    std::memcpy(from.bytes.data(), x.data(), from.bytes.size());
    Case c{std::string(name(to)),
           loops::parse_kernel(fmt::format(R"(kernel
threads 128 team 1 held 0 each 1
range p0 parallel {0}
buffer b0 f32 read
buffer b1 {1} write
buffer b2 {1} write
buffer b3 f32 write
stage
  %0 = load f32 b0[p0]
  store {1} b1[p0] %0
  %1 = cast {1} %0
  store {1} b2[p0] %1
  %2 = cast f32 %1
  store f32 b3[p0] %2
)",
                                           n, name(to))),
           {from, make_array(to, n), make_array(to, n), make_array(DType::F32, n)},
           {},
           0,
           0};
    cases.push_back(std::move(c));
  }
  expect_same(std::move(cases));
}

TEST(CudaOnHost, APlaceThatThereIsNotFails) {
  auto k = loops::parse_kernel(R"(kernel
threads 32 team 1 held 0 each 1
range p0 parallel 5
buffer b0 i64 read
buffer b1 f32 read
buffer b2 f32 write
stage
  %0 = load i64 b0[p0]
  %1 = const i64 7
  %2 = lt i64 %0 %1
  x0 = indirect %0 if %2
  %3 = load f32 b1[x0]
  store f32 b2[p0] %3
)");
  HostKernels host({k.get()});
  std::vector<int64_t> at = {0, 6, 3, 1, 1};
  std::vector<float> from(16, 2), to(5);
  EXPECT_TRUE(host.run(0, *k, {at.data(), from.data(), to.data()}, {}, 5));
  EXPECT_EQ(to[4], 2);
  at[3] = 7;
  EXPECT_FALSE(host.run(0, *k, {at.data(), from.data(), to.data()}, {}, 5));
}

}  // namespace
}  // namespace vesta::codegen::testing
