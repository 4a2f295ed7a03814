// Sums of products that become one product.
#include "graph/passes/passes.h"

#include "pass_text.h"

namespace vesta::graph {
namespace {

using namespace testing_text;

// The gradient of a weight that three steps use; another tensor is added.
const std::string kSteps = R"(
input %0 : f32[4, 64] = argument "x1"
input %1 : f32[4, 64] = argument "x2"
input %2 : f32[2, 64] = argument "x3"
input %3 : f32[4, 32] = argument "g1"
input %4 : f32[4, 32] = argument "g2"
input %5 : f32[2, 32] = argument "g3"
input %6 : f32[32, 64] = argument "decay"
%7 : f32[32, 4]{1, 32} = aten::permute(%3, [1, 0])
%8 : f32[64, 4]{1, 64} = aten::permute(%0, [1, 0])
%9 : f32[32, 64] = aten::linear(%7, %8, none)
%10 : f32[32, 64] = aten::add.Tensor(%9, %6)
%11 : f32[32, 4]{1, 32} = aten::permute(%4, [1, 0])
%12 : f32[64, 4]{1, 64} = aten::permute(%1, [1, 0])
%13 : f32[32, 64] = aten::linear(%11, %12, none)
%14 : f32[32, 64] = aten::add.Tensor(%10, %13)
%15 : f32[32, 2]{1, 32} = aten::permute(%5, [1, 0])
%16 : f32[64, 2]{1, 64} = aten::permute(%2, [1, 0])
%17 : f32[32, 64] = aten::linear(%15, %16, none)
%18 : f32[32, 64] = aten::add.Tensor(%14, %17)
output %18
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

TEST(SummedProducts, BecomeOne) {
  const auto g = parse(kSteps);
  const Options options;
  const PassContext context{.options = options, .may_rewrite = [] { return true; }};
  ASSERT_TRUE(merge_summed_products(*g, context));
  remove_dead_code(*g, context);
  canonicalise_views(*g, context);
  remove_dead_code(*g, context);
  verify(*g);
  std::vector<std::string> names;
  g->for_each_node([&](const Node* n) {
    if (n->op->name != "aten::permute") names.push_back(n->op->name);
  });
  EXPECT_EQ(names, (std::vector<std::string>{"aten::cat", "aten::cat", "aten::linear", "aten::add.Tensor"}));
  g->for_each_node([&](const Node* n) {
    if (n->op->name == "aten::cat") {
      EXPECT_EQ(hint(n->results[0]->type.sizes[0]), 4 + 4 + 2);
    }
  });
}

TEST(SummedProducts, NeedTwoThatAreLargerThanTheirOperands) {
  expect_unchanged(merge_summed_products, R"(
input %0 : f32[4, 64] = argument "x"
input %1 : f32[4, 32] = argument "g"
input %2 : f32[32, 64] = argument "decay"
%3 : f32[32, 4]{1, 32} = aten::permute(%1, [1, 0])
%4 : f32[64, 4]{1, 64} = aten::permute(%0, [1, 0])
%5 : f32[32, 64] = aten::linear(%3, %4, none)
%6 : f32[32, 64] = aten::add.Tensor(%5, %2)
output %6
)");
  // Gradients of an input that three layers read: each weight is as large as the product.
  expect_unchanged(merge_summed_products, R"(
input %0 : f32[64, 64] = argument "g1"
input %1 : f32[64, 64] = argument "g2"
input %2 : f32[64, 64] = parameter "w1"
input %3 : f32[64, 64] = parameter "w2"
%4 : f32[64, 64] = aten::linear(%0, %2, none)
%5 : f32[64, 64] = aten::linear(%1, %3, none)
%6 : f32[64, 64] = aten::add.Tensor(%4, %5)
output %6
)");
}

TEST(SummedProducts, ThatAreReadElsewhereStay) {
  expect_unchanged(merge_summed_products, replaced(kSteps, "output %18", "output %18\noutput %13\noutput %17"));
  expect_unchanged(merge_summed_products, replaced(kSteps, "output %18", "output %18\noutput %14\noutput %10"));
}

TEST(SummedProducts, KeepTheRoundingOfEager) {
  expect_unchanged(merge_summed_products, kSteps, {.numerics = "eager"});
  expect_unchanged(merge_summed_products, replaced(kSteps, "f32", "i64"));
}

}  // namespace
}  // namespace vesta::graph
