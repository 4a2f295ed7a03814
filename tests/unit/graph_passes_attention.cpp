// Attention of a CPU as two products (graph/passes/attention_products.cpp).
#include <fmt/format.h>

#include "pass_text.h"

namespace vesta::graph::testing_text {
namespace {

const auto kKernels = [](DType t, int64_t rows, int64_t, int64_t) { return t != DType::F16 && rows >= 4; };

void expect_products(const std::string& before, const std::string& after) {
  expect_pass(write_attention_products, before, after, {}, DeviceType::CPU, kKernels);
}
void expect_call(const std::string& text) {
  expect_unchanged(write_attention_products, text, {}, DeviceType::CPU, kKernels);
}

// Queries as a model makes them: a view of [batch, queries, heads, size].
std::string attention(const char* more, const char* mask = "", const char* results = "output %4") {
  return fmt::format(R"(
input %0 : f32[2, 4, 16, 32]{{2048, 32, 128, 1}} = argument "q"
input %1 : f32[2, 4, 24, 32]{{3072, 32, 128, 1}} = argument "k"
input %2 : f32[2, 4, 24, 32]{{3072, 32, 128, 1}} = argument "v"
{}
%4 : f32[2, 4, 16, 32]{{2048, 32, 128, 1}}, %5 : f32[2, 4, 16]{{64, 1, 4}} = aten::_scaled_dot_product_flash_attention_for_cpu(%0, %1, %2{})
{}
)",
                     mask, more, results);
}

TEST(AttentionProducts, AreScaledAndMasked) {
  expect_products(attention(", 0., false, attn_mask=%3, scale=0.5", "input %3 : f32[2, 1, 1, 24] = argument \"mask\""),
                  R"(
input %0 : f32[2, 4, 16, 32]{2048, 32, 128, 1} = argument "q"
input %1 : f32[2, 4, 24, 32]{3072, 32, 128, 1} = argument "k"
input %2 : f32[2, 4, 24, 32]{3072, 32, 128, 1} = argument "v"
input %3 : f32[2, 1, 1, 24] = argument "mask"
%4 : f32[2, 4, 1, 24, 32]{3072, 32, 3072, 128, 1} = aten::unsqueeze(%1, 2)
%5 : f32[2, 4, 1, 24, 32]{3072, 32, 3072, 128, 1} = aten::expand(%4, [2, 4, 1, 24, 32])
%6 : f32[2, 4, 1, 32, 24]{3072, 32, 3072, 1, 128} = aten::transpose.int(%5, 3, 4)
%7 : f32[2, 4, 1, 16, 32]{2048, 32, 2048, 128, 1} = aten::view(%0, [2, 4, 1, 16, 32])
%8 : f32[2, 4, 1, 16, 24] = aten::matmul(%7, %6)
%9 : f32[2, 4, 1, 16, 24] = aten::mul.Scalar(%8, 0.5)
%10 : f32[2, 4, 16, 24]{24, 0, 0, 1} = aten::expand(%3, [2, 4, 16, 24])
%11 : f32[2, 4, 1, 16, 24]{24, 0, 0, 0, 1} = aten::view(%10, [2, 4, 1, 16, 24])
%12 : f32[2, 4, 1, 16, 24] = aten::add.Tensor(%9, %11)
%13 : f32[2, 4, 1, 16, 1] = aten::amax(%12, [4], true)
%14 : bool[2, 4, 1, 16, 1] = aten::eq.Scalar(%13, -inf)
%15 : f32[2, 4, 1, 16, 1] = aten::masked_fill.Scalar(%13, %14, 0)
%16 : f32[2, 4, 1, 16, 24] = aten::sub.Tensor(%12, %15)
%17 : f32[2, 4, 1, 16, 24] = aten::exp(%16)
%18 : f32[2, 4, 1, 16, 1] = aten::sum.dim_IntList(%17, [4], true, dtype=dtype.f32)
%19 : bool[2, 4, 1, 16, 1] = aten::eq.Scalar(%18, 0)
%20 : f32[2, 4, 1, 16, 1] = aten::masked_fill.Scalar(%18, %19, 1)
%21 : f32[2, 4, 1, 24, 32]{3072, 32, 3072, 128, 1} = aten::unsqueeze(%2, 2)
%22 : f32[2, 4, 1, 24, 32]{3072, 32, 3072, 128, 1} = aten::expand(%21, [2, 4, 1, 24, 32])
%23 : f32[2, 4, 1, 16, 32] = aten::matmul(%17, %22)
%24 : f32[2, 4, 1, 16, 32]{2048, 32, 32, 128, 1} = aten::div.Tensor(%23, %20)
%25 : f32[2, 4, 16, 32]{2048, 32, 128, 1} = aten::view(%24, [2, 4, 16, 32])
output %25
)");
}

TEST(AttentionProducts, StayACallWhereItIsNone) {
  expect_unchanged(write_attention_products, attention(""), {}, DeviceType::CPU);  // kernels compute no product
  expect_call(attention(", 0.5"));                                                 // random
  const auto other = [](const char* queries, const char* keys, const char* type) {
    return fmt::format(R"(
input %0 : {2}[1, 8, {0}, 32] = argument "q"
input %1 : {2}[1, 8, {1}, 32] = argument "k"
input %2 : {2}[1, 8, {1}, 32] = argument "v"
%4 : {2}[1, 8, {0}, 32], _ = aten::_scaled_dot_product_flash_attention_for_cpu(%0, %1, %2)
output %4
)",
                       queries, keys, type);
  };
  expect_call(other("1", "64", "f32"));      // one query: the products would have one row
  expect_call(other("64", "64", "f16"));     // kernels add up products of F32 and BF16
  expect_call(other("64", "0", "f32"));      // no keys
  expect_call(other("4096", "512", "f32"));  // the scores of 16 blocks
}

// As the library stores them: [batch, queries, heads].
TEST(AttentionProducts, GiveTheLogarithmsOfTheSums) {
  const auto g = parse(attention("", "", "output %4\noutput %5"));
  const Options options;
  EXPECT_TRUE(write_attention_products(*g, {.options = options, .computes_product = kKernels}));
  verify(*g);
  const Value* const sums = g->outputs[1].value;
  EXPECT_EQ(sums->type.sizes, (std::vector<Expr>{2, 4, 16}));
  EXPECT_EQ(sums->type.strides, (std::vector<Expr>{64, 1, 4}));
  EXPECT_NE(print(*g).find("aten::log("), std::string::npos) << print(*g);
}

std::string derivative(const char* type, int queries, int keys, const char* more, bool of_queries = true) {
  return fmt::format(
      R"(
input %0 : {0}[2, 4, {1}, 32] = argument "tangent"
input %1 : {0}[2, 4, {1}, 32] = argument "q"
input %2 : {0}[2, 4, {2}, 32] = argument "k"
input %3 : {0}[2, 4, {2}, 32] = argument "v"
input %4 : {0}[2, 4, {1}, 32] = argument "out"
input %5 : f32[2, 4, {1}] = argument "sums"
{5}, %7 : {0}[2, 4, {2}, 32]{{{4}, 32, 128, 1}}, %8 : {0}[2, 4, {2}, 32]{{{4}, 32, 128, 1}} = aten::_scaled_dot_product_flash_attention_for_cpu_backward(%0, %1, %2, %3, %4, %5{3})
{6}output %7
output %8
)",
      type, queries, keys, more, 128 * keys,
      of_queries ? fmt::format("%6 : {}[2, 4, {}, 32]{{{}, 32, 128, 1}}", type, queries, 128 * queries) : "_",
      of_queries ? "output %6\n" : "");
}

int count(const Graph& g, std::string_view op) {
  int n = 0;
  g.for_each_node([&](const Node* node) { n += node->op->name == op; });
  return n;
}

TEST(AttentionProducts, OfADerivativeAreFive) {
  const auto g = parse(derivative("f32", 16, 24, ", 0., false"));
  std::vector<std::vector<Expr>> strides;
  for (const auto& o : g->outputs) strides.push_back(o.value->type.strides);
  const Options options;
  EXPECT_TRUE(write_attention_products(*g, {.options = options, .computes_product = kKernels}));
  verify(*g);
  EXPECT_EQ(count(*g, "aten::matmul"), 5) << print(*g);
  EXPECT_EQ(count(*g, "aten::exp"), 1);
  EXPECT_EQ(count(*g, "aten::amax"), 0);  // the logarithms contain the maximum
  for (size_t i = 0; i < strides.size(); ++i) EXPECT_EQ(g->outputs[i].value->type.strides, strides[i]);

  const auto some = parse(derivative("f32", 16, 24, ", 0., true", /*of_queries=*/false));
  EXPECT_TRUE(write_attention_products(*some, {.options = options, .computes_product = kKernels}));
  verify(*some);
  EXPECT_EQ(count(*some, "aten::matmul"), 4) << print(*some);
}

// Where the scores fill several caches, of 4 MiB, the parts are sequences, or heads.
TEST(AttentionProducts, DivideDerivatives) {
  for (const auto& [queries, parts, are_heads] : {std::tuple{10000, 2, false}, std::tuple{20000, 4, true}}) {
    const auto g = parse(derivative("f32", queries, 24, ", 0., false"));
    const Options options;
    EXPECT_TRUE(write_attention_products(*g, {.options = options, .computes_product = kKernels}));
    verify(*g);
    EXPECT_EQ(count(*g, "aten::matmul"), 5 * parts);
    EXPECT_EQ(count(*g, "aten::cat"), 3);
    EXPECT_EQ(print(*g).find("], 1)") != std::string::npos, are_heads) << print(*g);
  }
}

TEST(AttentionProducts, DerivativesThatStayCalls) {
  expect_call(derivative("f32", 16, 24, ", 0.5, false"));    // random
  expect_call(derivative("f32", 3, 24, ", 0., false"));      // sums over few queries
  expect_call(derivative("f32", 800, 24, ", 0., true"));     // the library leaves out half of it
  expect_call(derivative("f32", 60000, 24, ", 0., false"));  // the scores fill 11 caches, and there are 4 heads
}

// Several heads read the same keys.
TEST(AttentionProducts, ReadSharedKeysWhereTheyAre) {
  const auto g = parse(R"(
input %0 : f32[1, 4, 16, 32] = argument "q"
input %1 : f32[1, 2, 1, 24, 32] = argument "k"
input %2 : f32[1, 2, 1, 24, 32] = argument "v"
%3 : f32[1, 2, 2, 24, 32]{1536, 768, 0, 32, 1} = aten::expand(%1, [1, 2, 2, 24, 32])
%4 : f32[1, 2, 2, 24, 32] = aten::clone(%3, memory_format=format.contiguous)
%5 : f32[1, 4, 24, 32] = aten::view(%4, [1, 4, 24, 32])
%6 : f32[1, 2, 2, 24, 32]{1536, 768, 0, 32, 1} = aten::expand(%2, [1, 2, 2, 24, 32])
%7 : f32[1, 2, 2, 24, 32] = aten::clone(%6, memory_format=format.contiguous)
%8 : f32[1, 4, 24, 32] = aten::view(%7, [1, 4, 24, 32])
%9 : f32[1, 4, 16, 32], _ = aten::_scaled_dot_product_flash_attention_for_cpu(%0, %5, %8)
output %9
)");
  const Options options;
  EXPECT_TRUE(write_attention_products(*g, {.options = options, .computes_product = kKernels}));
  remove_dead_code(*g, {.options = options});
  verify(*g);
  const std::string text = print(*g);
  EXPECT_EQ(text.find("format.contiguous"), std::string::npos) << text;
  EXPECT_NE(text.find("aten::matmul(%"), std::string::npos) << text;
  EXPECT_NE(text.find("f32[1, 2, 2, 16, 24] = aten::matmul"), std::string::npos) << text;
}

// The scores take 16 MiB, so four blocks are made. A causal one sees one to four quarters of the keys.
TEST(AttentionProducts, DivideQueries) {
  for (const bool causal : {false, true}) {
    const auto g = parse(fmt::format(R"(
input %0 : f32[1, 8, 1000, 32] = argument "q"
input %1 : f32[1, 8, 520, 32] = argument "k"
input %2 : f32[1, 8, 520, 32] = argument "v"
%4 : f32[1, 8, 1000, 32], _ = aten::_scaled_dot_product_flash_attention_for_cpu(%0, %1, %2, 0., {})
output %4
)",
                                     causal));
    const Options options;
    EXPECT_TRUE(write_attention_products(*g, {.options = options, .computes_product = kKernels}));
    verify(*g);
    std::vector<int64_t> keys;
    g->for_each_node([&](const Node* n) {
      if (n->op->name == "aten::exp") keys.push_back(n->results[0]->type.sizes[4].constant());
    });
    const std::vector<int64_t> all(4, 520), some = {260, 520, 520, 520};
    EXPECT_EQ(keys, causal ? some : all);
  }
}

// Where all scores fit the caches, a causal call of many queries is still divided, so that blocks leave out keys. Other
// calls become products only up to a number of bytes.
TEST(AttentionProducts, OnCpusWithLargeCaches) {
  const auto made = [](const char* type, int queries, int keys, bool causal, bool matrices) {
    const auto g = parse(fmt::format(R"(
input %0 : {0}[1, 8, {1}, 32] = argument "q"
input %1 : {0}[1, 8, {2}, 32] = argument "k"
input %2 : {0}[1, 8, {2}, 32] = argument "v"
%4 : {0}[1, 8, {1}, 32], _ = aten::_scaled_dot_product_flash_attention_for_cpu(%0, %1, %2, 0., {3})
output %4
)",
                                     type, queries, keys, causal));
    const Options options;
    write_attention_products(
        *g, {.options = options, .cache_bytes = int64_t{64} << 20, .matrices = matrices, .computes_product = kKernels});
    verify(*g);
    return count(*g, "aten::exp");  // one for each block
  };
  EXPECT_EQ(made("f32", 600, 600, true, false), 4);
  EXPECT_EQ(made("f32", 600, 600, false, false), 1);
  EXPECT_EQ(made("f32", 500, 500, true, false), 1);
  EXPECT_EQ(made("f32", 2000, 1100, false, false), 0);  // 70 MB
  EXPECT_EQ(made("bf16", 2000, 1100, false, false), 2);
  EXPECT_EQ(made("bf16", 600, 600, true, true), 1);     // registers for matrices: as fast in one block
  EXPECT_EQ(made("bf16", 1100, 1100, false, true), 0);  // 39 MB are more than half of the caches
  EXPECT_EQ(made("bf16", 1100, 1100, false, false), 1);
}

// Scores and sums of BF16 are F32. The weights are rounded, as the library rounds them.
TEST(AttentionProducts, OfBf16KeepSumsInF32) {
  const auto g = parse(R"(
input %0 : bf16[1, 8, 64, 32] = argument "q"
input %1 : bf16[1, 8, 48, 32] = argument "k"
input %2 : bf16[1, 8, 48, 32] = argument "v"
%4 : bf16[1, 8, 64, 32], _ = aten::_scaled_dot_product_flash_attention_for_cpu(%0, %1, %2)
output %4
)");
  const Options options;
  EXPECT_TRUE(write_attention_products(*g, {.options = options, .computes_product = kKernels}));
  const std::string text = print(*g);
  for (const char* part : {"f32[1, 8, 1, 64, 48] = vesta::matmul_f32", "bf16[1, 8, 1, 64, 48] = aten::_to_copy",
                           "f32[1, 8, 1, 64, 32] = vesta::matmul_f32", "f32[1, 8, 1, 64, 32] = aten::div.Tensor"})
    EXPECT_NE(text.find(part), std::string::npos) << part << text;
}

TEST(AttentionProducts, HideLaterKeys) {
  const auto g = parse(attention(", 0., true"));
  const Options options;
  EXPECT_TRUE(write_attention_products(*g, {.options = options, .computes_product = kKernels}));
  const std::string text = print(*g);
  EXPECT_NE(text.find("aten::masked_fill.Scalar(%"), std::string::npos) << text;
  EXPECT_EQ(text.find("aten::eq.Scalar"), std::string::npos) << text;  // each query sees the first key
}

}  // namespace
}  // namespace vesta::graph::testing_text
