// What a forward graph saves for its backward graph.
#include <fmt/format.h>

#include "joint_graph.h"
#include "vesta/error.h"

namespace {

using namespace vesta;
using namespace vesta::graph;
using namespace vesta::graph::testing_joint;

using Ids = std::vector<uint32_t>;

// The backward of exp(tanh(x @ w)), as autograd writes it: each derivative reads a result.
constexpr const char* kChain = R"(
input %0 : f32[1024, 1024] = argument "x"
input %1 : f32[1024, 1024] = parameter "w"
input %2 : f32[1024, 1024] = argument "tangent"
%3 : f32[1024, 1024] = aten::mm(%0, %1)
%4 : f32[1024, 1024] = aten::tanh(%3)
%5 : f32[1024, 1024] = aten::exp(%4)
%6 : f32[1024, 1024] = aten::neg(%5)
%7 : f32[1024, 1024] = aten::mul.Tensor(%2, %5)
%8 : f32[1024, 1024] = aten::tanh_backward(%7, %4)
%9 : f32[1024, 1024]{1, 1024} = aten::t(%0)
%10 : f32[1024, 1024] = aten::mm(%9, %8)
output %6
output %10
)";
constexpr int64_t kMatrix = 1024 * 1024 * 4;

Target gpu() {
  Target t = machine();
  t.device = DeviceType::CUDA;
  t.threads = 132;
  t.memory_bytes_per_ns = 2000;
  t.cache_bytes_per_ns = 5000;
  t.l2_bytes = 1 << 20;
  return t;
}

TEST(SavedValues, CheapNodesAreComputedAgainInsteadOfSaved) {
  const Joint j = joint(kChain, 1, 1);
  const SavedValues c = choose(j);
  // Eager saves tanh's and exp's results.
  EXPECT_EQ(c.eager_bytes, 2 * kMatrix);
  EXPECT_EQ(c.bytes, kMatrix);
  EXPECT_EQ(ids(c.saved), (Ids{0, 4}));
  EXPECT_EQ(results(c.recomputed), Ids{5});
  EXPECT_LE(c.load_us + c.recompute_us, c.eager_us);
}

TEST(SavedValues, PrintsTheChoice) {
  const Joint j = joint(kChain, 1, 1);
  EXPECT_EQ(print(choose(j, {.bytes = 5'000'000})), R"(saved %0 0 bytes, alive
saved %4 4194304 bytes, loading it takes less time
recomputed %5 aten::exp
saved 4194304 bytes, eager 8388608 bytes, limit 5000000 bytes
backward: loads 0.350 ms, recomputes 0.210 ms; eager loads 0.699 ms
)");
}

// A product of the backward reads neg's result: to compute it again costs its way to memory and back.
constexpr const char* kReadByProduct = R"(
input %0 : f32[1024, 1024] = argument "x"
input %1 : f32[1024, 1024] = parameter "w"
input %2 : f32[1024, 1024] = argument "tangent"
%3 : f32[1024, 1024] = aten::mm(%0, %1)
%4 : f32[1024, 1024] = aten::neg(%3)
%5 : f32[1024, 1024] = aten::mm(%4, %1)
%6 : f32[1024, 1024]{1, 1024} = aten::t(%4)
%7 : f32[1024, 1024] = aten::mm(%6, %2)
%8 : f32[1024, 1024] = aten::sin(%3)
%9 : f32[1024, 1024] = aten::mul.Tensor(%7, %8)
output %5
output %9
)";

TEST(SavedValues, ALibraryCallOfTheBackwardReadsItsOperandFromMemory) {
  const Joint j = joint(kReadByProduct, 1, 1);
  const SavedValues c = choose(j);
  EXPECT_EQ(ids(c.saved), (Ids{3, 4}));
  EXPECT_EQ(results(c.moved), Ids{8});  // a part of a formula that only the gradient reads
  EXPECT_EQ(c.eager_bytes, 2 * kMatrix);
  // A limit asks for it.
  const SavedValues half = choose(j, {.fraction = 0.5});
  EXPECT_EQ(ids(half.saved), (Ids{3}));
  EXPECT_EQ(results(half.recomputed), Ids{4});
}

TEST(SavedValues, OnAGpuRoomIsLeftForWhatTheBackwardWorksIn) {
  const auto chosen = [](const Joint& j) {
    return choose_saved(*j.graph, j.first_tangent, j.first_gradient, {}, gpu());
  };
  const Joint j = joint(kReadByProduct, 1, 1);
  const SavedValues c = chosen(j);
  EXPECT_EQ(ids(c.saved), (Ids{3}));
  EXPECT_EQ(results(c.recomputed), Ids{4});
  EXPECT_FALSE(c.limit);
  // Only by another product: it is saved.
  const Joint of_products = joint(R"(
input %0 : f32[1024, 1024] = argument "x"
input %1 : f32[1024, 1024] = parameter "w"
input %2 : f32[1024, 1024] = argument "tangent"
%3 : f32[1024, 1024] = aten::mm(%0, %1)
%4 : f32[1024, 1024] = aten::mm(%3, %1)
%5 : f32[1024, 1024]{1, 1024} = aten::t(%3)
%6 : f32[1024, 1024] = aten::mm(%5, %2)
output %4
output %6
)",
                                  1, 1);
  const SavedValues products = chosen(of_products);
  EXPECT_EQ(ids(products.saved), (Ids{3}));
  EXPECT_TRUE(products.recomputed.empty());
}

// Eager's backward does not read the bias, and the program may write to it before the backward pass.
TEST(SavedValues, OnAGpuSmallInputsAreCopiedToComputeAgain) {
  const Joint j = joint(R"(
input %0 : f32[1024, 1024] = argument "x"
input %1 : f32[1024, 1024] = parameter "w"
input %2 : f32[1024] = parameter "bias"
input %3 : f32[1024, 1024] = argument "tangent"
%4 : f32[1024, 1024] = aten::mm(%0, %1)
%5 : f32[1024, 1024] = aten::add.Tensor(%4, %2)
%6 : f32[1024, 1024] = aten::neg(%5)
%7 : f32[1024, 1024] = aten::mm(%6, %1)
%8 : f32[1024, 1024]{1, 1024} = aten::t(%6)
%9 : f32[1024, 1024] = aten::mm(%8, %3)
%10 : f32[1024, 1024] = aten::mul.Tensor(%9, %4)
output %7
output %10
)",
                        1, 1);
  EXPECT_EQ(ids(choose(j).saved), (Ids{4, 6}));
  const SavedValues c = choose_saved(*j.graph, j.first_tangent, j.first_gradient, {}, gpu());
  EXPECT_EQ(ids(c.saved), (Ids{2, 4}));
  EXPECT_EQ(ids(c.copied), Ids{2});
  EXPECT_EQ(results(c.recomputed), (Ids{5, 6}));
  EXPECT_EQ(c.bytes, kMatrix + 4096);
  ASSERT_FALSE(c.kept.empty());
  EXPECT_EQ(c.kept[0].why, KeptFor::Input);
}

TEST(SavedValues, RandomNodesAreNeverComputedAgain) {
  const Joint j = joint(R"(
input %0 : f32[1024, 1024] = argument "x"
input %1 : f32[1024, 1024] = argument "tangent"
%2 : f32[1024, 1024], %3 : bool[1024, 1024] = aten::native_dropout(%0, 0.5, true)
%4 : f32[1024, 1024] = aten::sin(%2)
%5 : f32[1024, 1024] = aten::rand_like(%0)
%6 : f32[1024, 1024] = aten::cos(%2)
%7 : f32[1024, 1024] = aten::mul.Tensor(%1, %6)
%8 : f32[1024, 1024] = aten::mul.Tensor(%7, %3)
%9 : f32[1024, 1024] = aten::mul.Tensor(%8, %5)
output %4
output %9
)",
                        1, 1);
  for (const double fraction : {1.0, 0.1}) {
    const SavedValues c = choose(j, {.fraction = fraction});
    EXPECT_EQ(ids(c.saved), (Ids{2, 3, 5}));  // %5 runs in the forward: draws keep their order
    EXPECT_EQ(c.eager_bytes, 2 * kMatrix + kMatrix / 4);
    EXPECT_EQ(c.bytes, c.eager_bytes);
    EXPECT_EQ(c.reached(), fraction == 1);
    for (const SavedValues::Kept& k : c.kept) EXPECT_EQ(k.why, KeptFor::Random);
  }
}

TEST(SavedValues, AttentionWithoutDropoutDrawsNothing) {
  const auto recomputed = [](const char* dropout) {
    constexpr const char* kText = R"(
input %0 : f32[2, 4, 512, 64] = argument "q"
input %1 : f32[2, 4, 512, 64] = argument "tangent"
%2 : f32[2, 4, 512, 64]{{131072, 64, 256, 1}}, %3 : f32[2, 4, 512], %4 : i64[], %5 : i64[] = aten::_scaled_dot_product_efficient_attention(%0, %0, %0, none, true, {})
%6 : f32[2, 4, 512, 64] = aten::sin(%2)
%7 : f32[2, 4, 512, 64] = aten::mul.Tensor(%1, %2)
output %6
output %7
)";
    const Joint j = joint(fmt::format(kText, dropout), 1, 1);
    return choose(j, {.bytes = 0}).recomputed.size();
  };
  EXPECT_EQ(recomputed("0.0"), 1u);
  EXPECT_EQ(recomputed("0.5"), 0u);
}

TEST(SavedValues, OperatorsWithoutARowAreNeverComputedAgain) {
  declare_op("mine::unknown(Tensor x) -> Tensor");
  const Joint j = joint(R"(
input %0 : f32[1024, 1024] = argument "x"
input %1 : f32[1024, 1024] = argument "tangent"
%2 : f32[1024, 1024] = mine::unknown(%0)
%3 : f32[1024, 1024] = aten::sin(%2)
%4 : f32[1024, 1024] = aten::mul.Tensor(%1, %2)
output %3
output %4
)",
                        1, 1);
  const SavedValues c = choose(j, {.bytes = 0});
  EXPECT_EQ(ids(c.saved), Ids{2});
  EXPECT_EQ(c.kept.at(0).why, KeptFor::Unknown);
  EXPECT_FALSE(c.reached());
  EXPECT_NE(print(c).find("limit 0 bytes: not reached"), std::string::npos) << print(c);
}

TEST(SavedValues, FormulasRunInTheBackwardAlsoBehindAViewWithoutARow) {
  declare_op("aten::detach(Tensor(a) self) -> Tensor(a)");
  const Joint j = joint(R"(
input %0 : f32[1024, 1024] = argument "x"
input %1 : f32[1024, 1024] = argument "tangent"
%2 : f32[1024, 1024] = aten::sin(%0)
%3 : f32[1024, 1024] = aten::cos(%0)
%4 : f32[1024, 1024] = aten::detach(%3)
%5 : f32[1024, 1024] = aten::mul.Tensor(%1, %4)
output %2
output %5
)",
                        1, 1);
  const SavedValues c = choose(j);
  EXPECT_EQ(ids(c.saved), Ids{0});
  EXPECT_EQ(results(c.moved), Ids{3});
  EXPECT_EQ(c.eager_bytes, 0);
}

TEST(SavedValues, LibraryCallsAreComputedAgainOnlyForALimit) {
  const Joint j = joint(R"(
input %0 : f32[1024, 1024] = argument "x"
input %1 : f32[1024, 1024] = parameter "w"
input %2 : f32[1024, 1024] = argument "tangent"
%3 : f32[1024, 1024] = aten::mm(%0, %1)
%4 : f32[1024, 1024] = aten::sin(%3)
%5 : f32[1024, 1024] = aten::cos(%3)
%6 : f32[1024, 1024] = aten::mul.Tensor(%2, %5)
output %4
output %6
)",
                        1, 1);
  const SavedValues c = choose(j);
  EXPECT_EQ(ids(c.saved), Ids{3});
  EXPECT_EQ(c.kept.at(0).why, KeptFor::Library);
  EXPECT_EQ(c.eager_bytes, kMatrix);
  const SavedValues none = choose(j, {.bytes = 0});
  EXPECT_EQ(ids(none.saved), (Ids{0, 1}));
  EXPECT_EQ(none.bytes, 0);
  EXPECT_TRUE(none.reached());
  EXPECT_EQ(results(none.recomputed), Ids{3});
  EXPECT_GT(none.recompute_us, c.recompute_us);
}

TEST(SavedValues, ViewsShareTheMemoryOfTheirBase) {
  const Joint j = joint(R"(
input %0 : f32[1024, 1024] = argument "x"
input %1 : f32[1024, 1024] = parameter "w"
input %2 : f32[1024, 1024] = argument "tangent"
%3 : f32[1024, 1024] = aten::mm(%0, %1)
%4 : f32[1024, 1024]{1, 1024} = aten::t(%3)
%5 : f32[1048576] = aten::view(%3, [1048576])
%6 : f32[1024, 1024] = aten::sin(%4)
%7 : f32[1024, 1024] = aten::mul.Tensor(%2, %3)
%8 : f32[1024, 1024] = aten::mul.Tensor(%7, %4)
%9 : f32[1024, 1024] = aten::_unsafe_view(%5, [1024, 1024])
%10 : f32[1024, 1024] = aten::mul.Tensor(%8, %9)
%11 : f32[1024, 1024] = aten::cos(%9)
output %6
output %11
output %10
)",
                        1, 1);
  const SavedValues c = choose(j);
  EXPECT_EQ(ids(c.saved), Ids{3});
  EXPECT_EQ(c.bytes, kMatrix);
  EXPECT_EQ(c.eager_bytes, kMatrix);
  nodes_of_backward(j, c.saved);
}

TEST(SavedValues, AnInputThatTheProgramWritesCostsACopy) {
  constexpr const char* kText = R"(
input %0 : f32[1024, 1024] = argument "x"
input %1 : f32[1024, 1024] = argument "tangent"
%2 : f32[1024, 1024] = aten::sin(%0)
%3 : f32[1024, 1024] = aten::mul.Tensor(%1, %0)
{}
output %2
output %3
)";
  const Joint only_read = joint(fmt::format(kText, ""), 1, 1);
  const SavedValues kept = choose(only_read);
  EXPECT_EQ(ids(kept.saved), Ids{0});
  EXPECT_EQ(kept.bytes, 0);
  const Joint also_written = joint(fmt::format(kText, "mutate input 0 = %2"), 1, 1);
  const SavedValues written = choose(also_written);
  EXPECT_EQ(ids(written.saved), Ids{0});
  EXPECT_EQ(written.bytes, kMatrix);
  EXPECT_EQ(written.eager_bytes, kMatrix);
  EXPECT_EQ(written.kept.at(0).why, KeptFor::Input);
}

TEST(SavedValues, OutputsOfTheProgramAreAliveAnyway) {
  constexpr const char* kText = R"(
input %0 : f32[1024, 1024] = argument "x"
input %1 : f32[1024, 1024] = parameter "w"
input %2 : f32[1024, 1024] = argument "tangent"
%3 : f32[1024, 1024] = aten::mm(%0, %1)
%4 : f32[1024, 1024] = aten::tanh(%3)
%5 : f32[1024, 1024] = aten::tanh_backward(%2, %4)
output %4
output %5
)";
  const Joint j = joint(kText, 1, 1);
  const SavedValues c = choose(j);
  EXPECT_EQ(ids(c.saved), Ids{4});
  EXPECT_EQ(c.bytes, 0);
  EXPECT_EQ(c.eager_bytes, 0);
  EXPECT_TRUE(c.kept.empty());
}

// A wide tensor is made of a narrow result of the program, and eager saves a result in the wide type.
constexpr const char* kWidened = R"(
input %0 : bf16[1024, 1024] = argument "x"
input %1 : bf16[1024, 1024] = parameter "w"
input %2 : f32[1024, 1024] = argument "tangent"
%3 : bf16[1024, 1024] = aten::mm(%0, %1)
%4 : f32[1024, 1024] = aten::_to_copy(%3, dtype=dtype.f32)
%5 : f32[1024, 1024] = aten::relu(%4)
%6 : f32[1024, 1024] = aten::neg(%5)
%7 : f32[1024, 1024] = aten::threshold_backward(%2, %5, 0)
%8 : bf16[1024, 1024] = aten::_to_copy(%7, dtype=dtype.bf16)
output %3
output %6
output %8
)";

TEST(SavedValues, ACopyOfAnOutputThatEagerDoesNotSave) {
  const Joint j = joint(kWidened, 1, 1);
  const SavedValues c = choose(j);
  EXPECT_EQ(c.eager_bytes, kMatrix);
  EXPECT_EQ(c.bytes, kMatrix / 2);
  EXPECT_EQ(ids(c.saved), Ids{3});
  EXPECT_EQ(ids(c.copied), Ids{3});
  EXPECT_EQ(results(c.recomputed), (Ids{4, 5}));
  ASSERT_EQ(c.kept.size(), 1u);
  EXPECT_EQ(c.kept[0].why, KeptFor::Output);
}

TEST(SavedValues, WhatNoGradientNeedsIsNotSavedFor) {
  const Joint j = joint(R"(
input %0 : f32[1024, 1024] = argument "x"
input %1 : f32[1024, 1024] = argument "tangent"
%2 : f32[1024, 1024] = aten::sin(%0)
%3 : f32[1024, 1024] = aten::sin(%2)
%4 : f32[1024, 1024] = aten::mul.Tensor(%1, %2)
%5 : f32[1024, 1024] = aten::mul.Tensor(%4, %4)
%6 : f32[1024, 1024] = aten::neg(%1)
output %3
output %6
)",
                        1, 1);
  const SavedValues c = choose(j);
  EXPECT_TRUE(c.saved.empty());
  EXPECT_EQ(c.eager_bytes, 0);
}

TEST(SavedValues, SizesCountByTheirHints) {
  const SavedValues c = choose(joint(R"(
symbol s0 = 96, at least 2
source s0 = size 0 of input 0
input %0 : f32[s0, 1024] = argument "x"
input %1 : f32[1024, 1024] = parameter "w"
input %2 : f32[s0, 1024] = argument "tangent"
%3 : f32[s0, 1024] = aten::mm(%0, %1)
%4 : f32[s0, 1024] = aten::sin(%3)
%5 : f32[s0, 1024] = aten::mul.Tensor(%2, %3)
output %4
output %5
)",
                                     1, 1));
  EXPECT_EQ(c.bytes, 96 * 1024 * 4);
}

TEST(SavedValues, SpeedsOfTheTargetDecide) {
  const Joint j = joint(R"(
input %0 : f32[1024, 1024] = argument "x"
input %1 : f32[1024, 1024] = parameter "w"
input %2 : f32[1024, 1024] = argument "tangent"
%3 : f32[1024, 1024] = aten::mm(%0, %1)
%4 : f32[1024, 1024] = aten::pow.Tensor_Scalar(%3, 1.7)
%5 : f32[1024, 1024] = aten::exp(%3)
%6 : f32[1024, 1024] = aten::neg(%3)
%7 : f32[1024, 1024] = aten::add.Tensor(%4, %5)
%8 : f32[1024, 1024] = aten::add.Tensor(%7, %6)
%9 : f32[1024, 1024] = aten::mul.Tensor(%2, %3)
%10 : f32[1024, 1024] = aten::mul.Tensor(%9, %4)
%11 : f32[1024, 1024] = aten::mul.Tensor(%10, %5)
%12 : f32[1024, 1024] = aten::mul.Tensor(%11, %6)
output %8
output %12
)",
                        1, 1);
  const auto again = [&](const Target& t) {
    return results(choose_saved(*j.graph, j.first_tangent, j.first_gradient, {}, t).recomputed);
  };
  EXPECT_EQ(again(machine()), (Ids{5, 6}));
  Target narrow = machine();
  narrow.vector_bytes = 16;
  EXPECT_EQ(again(narrow), Ids{6});
  EXPECT_EQ(again(gpu()), (Ids{4, 5, 6}));
}

TEST(SavedValues, GradientsWithoutATangentAreSavedOrComputed) {
  const Joint j = joint(R"(
input %0 : f32[1024, 1024] = argument "x"
input %1 : f32[1024, 1024] = argument "tangent"
%2 : f32[1024, 1024] = aten::sin(%0)
%3 : f32[1024, 1024] = aten::ones_like(%0)
output %2
output %3
output none
output %0
)",
                        1, 3);
  const SavedValues c = choose(j);
  EXPECT_EQ(c.bytes, 0);
  EXPECT_EQ(ids(c.saved), Ids{0});
  EXPECT_EQ(results(c.moved), Ids{3});
}

// Every sine feeds the next, and a product in the backward reads the last.
Joint long_chain(int nodes) {
  std::string text = R"(
input %0 : f32[512, 512] = argument "x"
input %1 : f32[512, 512] = argument "tangent"
)";
  const auto type = "f32[512, 512]";
  uint32_t last = 0, next = 2;
  std::vector<uint32_t> all;
  for (int i = 0; i < nodes; ++i, last = next++) {
    text += fmt::format("%{} : {} = aten::neg(%{})\n", next, type, last);
    all.push_back(next);
  }
  uint32_t grad = 1;
  for (size_t i = all.size(); i-- > 0; grad = next++)
    text += fmt::format("%{} : {} = aten::mul.Tensor(%{}, %{})\n", next, type, grad, all[i]);
  text += fmt::format("%{} : f32[] = aten::sum(%{})\noutput %{}\noutput %{}\n", next, last, next, grad);
  return joint(text, 1, 1);
}

TEST(SavedValues, ChainsThatAreComputedAgainAreBounded) {
  const Joint j = long_chain(100);
  const SavedValues c = choose(j);
  EXPECT_EQ(c.eager_bytes, 100 * (512 * 512 * 4));
  EXPECT_LT(c.bytes, c.eager_bytes / 8);
  EXPECT_GE(c.saved.size(), 100 / 17);
  size_t ends = 0;
  for (const SavedValues::Kept& k : c.kept) ends += k.why == KeptFor::Chain;
  EXPECT_GT(ends, 0u);
  // No chain of more than 16.
  const std::set<const Node*> again(c.recomputed.begin(), c.recomputed.end());
  int length = 0;
  for (const Node* n = j.graph->first(); n && n->op->name == "aten::neg"; n = n->next) {
    length = again.contains(n) ? length + 1 : 0;
    EXPECT_LE(length, 16);
  }
}

TEST(SavedValues, ChainsOfLibraryCallsThatAreComputedAgainAreBounded) {
  std::string text = R"(
input %0 : f32[512, 512] = argument "x"
input %1 : f32[512, 512] = argument "tangent"
)";
  const char* const statement = "%{} : f32[512, 512] = aten::{}(%{}, %{})\n";
  constexpr int kCalls = 40;
  for (int i = 0; i < kCalls; ++i) text += fmt::format(fmt::runtime(statement), i + 2, "mm", i == 0 ? 0 : i + 1, 0);
  for (int i = kCalls; i-- > 0;)
    text += fmt::format(fmt::runtime(statement), 2 * kCalls + 1 - i, "mul.Tensor", i == kCalls - 1 ? 1 : 2 * kCalls - i,
                        i + 2);
  text += fmt::format("%{0} : f32[] = aten::sum(%{1})\noutput %{0}\noutput %{2}\n", 2 * kCalls + 2, kCalls + 1,
                      2 * kCalls + 1);
  const Joint j = joint(text, 1, 1);
  const SavedValues c = choose(j, {.bytes = 0});
  EXPECT_FALSE(c.reached());
  EXPECT_EQ(c.eager_bytes, kCalls * (512 * 512 * 4));
  EXPECT_LE(c.bytes, c.eager_bytes / 8);
  const std::set<const Node*> again(c.recomputed.begin(), c.recomputed.end());
  int length = 0;
  for (const Node* n = j.graph->first(); n && n->op->name == "aten::mm"; n = n->next) {
    length = again.contains(n) ? length + 1 : 0;
    EXPECT_LE(length, 8);
  }
}

TEST(SavedValues, CheckpointRegionsSaveNothingInside) {
  // A region of two layers with a dropout between them.
  const Joint j = joint(R"(
input %0 : f32[1024, 1024] = argument "x"
input %1 : f32[1024, 1024] = parameter "w"
input %2 : f32[1024, 1024] = argument "tangent"
%3 : f32[1024, 1024] = aten::mm(%0, %1)
%4 : f32[1024, 1024] = aten::mm(%3, %1)
%5 : f32[1024, 1024], %6 : bool[1024, 1024] = aten::native_dropout(%4, 0.5, true)
%7 : f32[1024, 1024] = aten::mm(%5, %1)
%8 : f32[1024, 1024] = aten::mm(%7, %1)
%9 : f32[1024, 1024] = aten::sin(%8)
%10 : f32[1024, 1024] = aten::mul.Tensor(%2, %8)
%11 : f32[1024, 1024] = aten::mul.Tensor(%10, %7)
%12 : f32[1024, 1024] = aten::mul.Tensor(%11, %6)
%13 : f32[1024, 1024] = aten::mul.Tensor(%12, %4)
output %9
output %13
)",
                        1, 1);
  const auto region = [&](const Node* n) { return n->results[0]->id >= 4 && n->results[0]->id <= 8 ? 7 : -1; };
  const SavedValues c = choose(j, {}, region);
  // %3 is the region's operand, %8 its result. The mask and the random result are saved: their state is not kept.
  EXPECT_EQ(ids(c.saved), (Ids{1, 3, 5, 6, 8}));
  EXPECT_EQ(results(c.recomputed), (Ids{4, 7}));
  EXPECT_EQ(choose(j).recomputed.size(), 0u);
}

TEST(SavedValues, WhatLeavesACheckpointRegionIsNotComputedAgain) {
  // Two regions: the result of the first costs little where the region is computed again, and is saved all the same.
  const Joint j = joint(R"(
input %0 : f32[1024, 1024] = argument "x"
input %1 : f32[1024, 1024] = parameter "w"
input %2 : f32[1024, 1024] = argument "tangent"
%3 : f32[1024, 1024] = aten::mm(%0, %1)
%4 : f32[1024, 1024] = aten::sin(%3)
%5 : f32[1024, 1024] = aten::mm(%4, %1)
%6 : f32[1024, 1024] = aten::sin(%5)
%7 : f32[1024, 1024] = aten::mul.Tensor(%2, %5)
%8 : f32[1024, 1024] = aten::mul.Tensor(%7, %4)
%9 : f32[1024, 1024] = aten::mul.Tensor(%8, %3)
output %6
output %9
)",
                        1, 1);
  const auto region = [&](const Node* n) {
    const uint32_t id = n->results[0]->id;
    return id == 3 || id == 4 ? 0 : id == 5 || id == 6 ? 1 : -1;
  };
  const SavedValues c = choose(j, {}, region);
  EXPECT_EQ(ids(c.saved), (Ids{0, 1, 4}));
  EXPECT_EQ(results(c.recomputed), (Ids{3, 5}));
  ASSERT_EQ(c.kept.size(), 1u);
  EXPECT_EQ(c.kept[0].why, KeptFor::Region);
}

TEST(SavedValues, IsTheSameInEveryCall) {
  const Joint j = long_chain(60), again = long_chain(60);
  for (const double fraction : {1.0, 0.05}) {
    const std::string first = print(choose(j, {.fraction = fraction}));
    EXPECT_EQ(print(choose(j, {.fraction = fraction})), first);
    EXPECT_EQ(print(choose(again, {.fraction = fraction})), first);
  }
}

TEST(SavedValues, RefusesWrongLimitsAndGraphs) {
  const Joint j = joint(kChain, 1, 1);
  EXPECT_THROW(choose(j, {.fraction = -0.5}), UserError);
  EXPECT_THROW(choose(j, {.fraction = std::numeric_limits<double>::quiet_NaN()}), UserError);
  EXPECT_THROW(choose(j, {.bytes = -1}), UserError);
  EXPECT_THROW(choose_saved(*j.graph, 2, 2, {}, machine()), InternalError);  // the gradient as an output of the program
  EXPECT_THROW(choose_saved(*j.graph, 9, 1, {}, machine()), InternalError);
}

}  // namespace
