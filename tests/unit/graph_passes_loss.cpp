// The gradient of a cross-entropy by its logits. What nll_loss_backward becomes (graph/ops/loss.cpp) is zero but for
// the class of the target, and the gradient of log_softmax (graph/ops/softmax.cpp) knows it by its nodes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "pass_text.h"

namespace vesta::graph {
namespace {

constexpr int kNone = 0, kMean = 1, kSum = 2;

// Sums in the decomposed gradient of log_softmax(x) for rows of `classes`, whose own gradient is `gradient`.
int sums_in(const std::string& inputs, const std::string& gradient, int dim = 1, const std::string& type = "f32") {
  std::string text = fmt::format(
      "input %0 : f32[8, 5] = argument \"logits\"\n{}{}"
      "%9 : f32[8, 5] = aten::_log_softmax_backward_data(%8, %0, {}, dtype.f32)\noutput %9\n",
      inputs, gradient, dim);
  for (size_t at = 0; (at = text.find("f32", at)) != std::string::npos; at += type.size()) text.replace(at, 3, type);
  const auto g = parse(text);
  verify(*g);
  const Options options;
  decompose_composites(*g, {.options = options});
  remove_dead_code(*g, {.options = options});
  verify(*g);
  int sums = 0;
  g->for_each_node([&](const Node* n) { sums += n->op->name.starts_with("aten::sum"); });
  return sums;
}

std::string rows(int reduction) {
  return fmt::format(
      "input %1 : i64[8] = argument \"target\"\ninput %2 : f32[{}] = argument \"tangent\"\n"
      "input %3 : f32[] = argument \"total_weight\"\ninput %4 : f32[5] = argument \"weight\"\n",
      reduction == kNone ? "8" : "");
}
std::string nll_backward(const char* weight, int reduction) {
  return fmt::format("%8 : f32[8, 5] = aten::nll_loss_backward(%2, %0, %1, {}, {}, -100, %3)\n", weight, reduction);
}

TEST(CrossEntropyGradient, OfOneClassNeedsNoSumOverClasses) {
  for (const int reduction : {kNone, kMean, kSum})
    EXPECT_EQ(sums_in(rows(reduction), nll_backward("none", reduction)), 0) << reduction;
}

// The gradient is computed in the half type and summed in float32.
TEST(CrossEntropyGradient, OfHalfLogitsNeedsNoSumEither) {
  for (const char* const type : {"bf16", "f16"})
    for (const int reduction : {kNone, kMean, kSum}) {
      std::string inputs = rows(reduction), gradient = nll_backward("none", reduction);
      EXPECT_EQ(sums_in(inputs, gradient, 1, type), 0) << type << reduction;
      EXPECT_EQ(sums_in(inputs, gradient, 0, type), 1) << type << reduction;
    }
}

// Each class has a factor of its own there, and the sum is one over the classes.
TEST(CrossEntropyGradient, OfWeightedClassesIsASum) {
  for (const int reduction : {kNone, kMean, kSum})
    EXPECT_EQ(sums_in(rows(reduction), nll_backward("%4", reduction)), 1) << reduction;
}

TEST(CrossEntropyGradient, AlongAnotherDimensionIsASum) {
  EXPECT_EQ(sums_in(rows(kMean), nll_backward("none", kMean), 0), 1);
}

TEST(CrossEntropyGradient, OfAllClassesIsASum) { EXPECT_EQ(sums_in("", "%8 : f32[8, 5] = aten::exp(%0)\n"), 1); }

}  // namespace
}  // namespace vesta::graph
