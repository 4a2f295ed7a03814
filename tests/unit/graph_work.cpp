#include "graph/work.h"

#include <gtest/gtest.h>

namespace {

using namespace vesta;
using namespace vesta::graph;

// Of the last node.
Work work(const std::string& text) {
  const auto g = parse(text);
  return work_of(*g->last());
}

constexpr const char* kMatrices = R"(
input %0 : f32[6, 4] = argument "a"
input %1 : f32[4, 5] = argument "b"
input %2 : f32[5] = argument "c"
)";

TEST(Work, OfProducts) {
  const Work mm = work(std::string(kMatrices) + "%3 : f32[6, 5] = aten::mm(%0, %1)");
  EXPECT_FALSE(mm.fuses);
  EXPECT_EQ(mm.multiplications, 6 * 4 * 5);
  EXPECT_EQ(mm.bytes, 4 * (6 * 4 + 4 * 5 + 6 * 5));
  EXPECT_EQ(work(std::string(kMatrices) + "%3 : f32[6, 5] = aten::addmm(%2, %0, %1)").multiplications, 6 * 4 * 5);
  EXPECT_EQ(work(R"(
input %0 : f32[2, 3, 8, 8] = argument "x"
input %1 : f32[7, 3, 5, 5] = parameter "w"
%2 : f32[2, 7, 4, 4] = aten::convolution(%0, %1, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
)")
                .multiplications,
            2 * 7 * 4 * 4 * (3 * 5 * 5));
  EXPECT_EQ(work(R"(
input %0 : f32[2, 7, 4, 4] = argument "x"
input %1 : f32[7, 3, 5, 5] = parameter "w"
%2 : f32[2, 3, 8, 8] = aten::convolution(%0, %1, none, [1, 1], [0, 0], [1, 1], true, [0, 0], 1)
)")
                .multiplications,
            2 * 7 * 4 * 4 * (3 * 5 * 5));
  EXPECT_EQ(work(R"(
input %0 : f32[2, 3, 8, 16] = argument "q"
input %1 : f32[2, 3, 9, 16] = argument "k"
%2 : f32[2, 3, 8, 16], %3 : f32[2, 3, 8] = aten::_scaled_dot_product_flash_attention_for_cpu(%0, %1, %1)
)")
                .multiplications,
            2 * 3 * 8 * 9 * (16 + 16));
}

TEST(Work, OfWhatKernelsCompute) {
  const Work exp = work(std::string(kMatrices) + "%3 : f32[6, 4] = aten::exp(%0)");
  EXPECT_TRUE(exp.fuses);
  EXPECT_EQ(exp.multiplications, 6 * 4 * cost(Prim::Exp));
  EXPECT_EQ(work(std::string(kMatrices) + "%3 : f32[4] = aten::sum.dim_IntList(%0, [0])").multiplications, 6 * 4);
  EXPECT_EQ(work(std::string(kMatrices) + "%3 : f32[4, 6]{1, 4} = aten::t(%0)").multiplications, 0);
  // Where ATen computes complex numbers.
  EXPECT_FALSE(work("input %0 : c64[6] = argument \"a\"\n%1 : c64[6] = aten::sinh(%0)").fuses);
  EXPECT_TRUE(work("input %0 : c64[6] = argument \"a\"\n%1 : c64[6] = aten::neg(%0)").fuses);
}

TEST(Work, MemoryHoldsEachElementOnce) {
  const auto bytes = [](std::vector<Expr> sizes, std::vector<Expr> strides) {
    return memory_bytes({DType::BF16, std::move(sizes), std::move(strides), {}});
  };
  EXPECT_EQ(bytes({3, 4}, {4, 1}), 24);
  EXPECT_EQ(bytes({3, 4}, {0, 1}), 8);
  EXPECT_EQ(bytes({3, 4}, {8, 1}), 2 * (2 * 8 + 4));
  EXPECT_EQ(bytes({}, {}), 2);
  EXPECT_EQ(bytes({3, 0}, {1, 1}), 0);
}

TEST(Work, TakesTheTimeOfTheTarget) {
  Target one, two;
  two.threads = 2;
  const Work exp = work("input %0 : f32[1000, 1000] = argument \"a\"\n%1 : f32[1000, 1000] = aten::exp(%0)");
  EXPECT_DOUBLE_EQ(Speeds(one).nanoseconds(exp), 2 * Speeds(two).nanoseconds(exp));
  // Bytes that fit into the cache are read faster.
  EXPECT_EQ(Speeds(one).bytes_per_ns(1000), one.cache_bytes_per_ns);
  EXPECT_EQ(Speeds(one).bytes_per_ns(one.l2_bytes + 1), one.memory_bytes_per_ns);
  // A library call of a GPU: products of half types are faster.
  Target gpu;
  gpu.device = DeviceType::CUDA;
  gpu.threads = 100;
  gpu.memory_bytes_per_ns = 2000;
  Work product{.multiplications = 1e12, .bytes = 1000, .compute = DType::F32};
  const double full = Speeds(gpu).nanoseconds(product);
  product.compute = DType::BF16;
  EXPECT_LT(Speeds(gpu).nanoseconds(product), full / 10);
}

}  // namespace
