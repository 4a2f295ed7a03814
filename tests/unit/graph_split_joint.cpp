// The halves of a joint graph: what the backward half computes again, and when; masks that are saved as booleans.
#include <algorithm>

#include "joint_graph.h"

#include "graph/joint.h"

#include <fmt/format.h>

namespace vesta::graph {
namespace {

Halves halves(testing_joint::Joint j, const std::vector<uint32_t>& saved) {
  Joint joint{.first_tangent = j.first_tangent, .first_gradient = j.first_gradient};
  JointPart& part = joint.parts.emplace_back();
  for (size_t i = j.first_tangent; i < j.graph->inputs.size(); ++i) {
    part.tangents.push_back(static_cast<int>(i));
    part.results.push_back(0);
  }
  for (size_t i = j.first_gradient; i < j.graph->outputs.size(); ++i) {
    part.gradients.push_back(static_cast<int>(i));
    part.inputs.push_back(0);
  }
  std::vector<Value*> chosen;
  const auto note = [&](Value* v) {
    if (v && std::ranges::find(saved, v->id) != saved.end()) chosen.push_back(v);
  };
  for (const Input& i : j.graph->inputs) note(i.value);
  bool is_backward = false;
  j.graph->for_each_node([&](Node* n) {
    n->for_each_input([&](const Value* v) { is_backward |= v == j.graph->inputs[j.first_tangent].value; });
    if (is_backward && !joint.first_backward) joint.first_backward = n;
    for (Value* v : n->results) note(v);
  });
  return split(std::move(j.graph), joint, chosen);
}

std::vector<std::string> names(const Graph& g) {
  std::vector<std::string> out;
  g.for_each_node([&](const Node* n) { out.push_back(n->op->name); });
  return out;
}

using Names = std::vector<std::string>;

TEST(SplitJoint, ComputesAgainRightBeforeTheUse) {
  const Halves h = halves(testing_joint::joint(R"(
input %0 : f32[64] = argument "x"
input %1 : f32[64] = argument "tangent"
%2 : f32[64] = aten::sin(%0)
%3 : f32[64] = aten::cos(%2)
%4 : f32[64] = aten::exp(%3)
%5 : f32[64] = aten::neg(%1)
%6 : f32[64] = aten::mul.Tensor(%5, %4)
%7 : f32[64] = aten::abs(%6)
%8 : f32[64] = aten::mul.Tensor(%7, %2)
output %4
output %8
)",
                                               1, 1),
                          {0});
  EXPECT_EQ(names(*h.forward), (Names{"aten::sin", "aten::cos", "aten::exp"}));
  ASSERT_EQ(h.backward.size(), 1u);
  verify(*h.backward[0].graph);
  EXPECT_EQ(names(*h.backward[0].graph), (Names{"aten::neg", "aten::sin", "aten::cos", "aten::exp", "aten::mul.Tensor",
                                                "aten::abs", "aten::mul.Tensor"}));
}

TEST(SplitJoint, AGradientThatNoTangentReachesComesLast) {
  const Halves h = halves(testing_joint::joint(R"(
input %0 : f32[64] = argument "x"
input %1 : f32[64] = argument "tangent"
%2 : f32[64] = aten::sin(%0)
%3 : f32[64] = aten::mul.Tensor(%1, %0)
output %0
output %2
output %3
)",
                                               1, 2),
                          {0});
  EXPECT_EQ(names(*h.backward.at(0).graph), (Names{"aten::mul.Tensor", "aten::sin"}));
}

TEST(SplitJoint, MasksOfFloatsAreSavedAsBooleans) {
  testing_joint::Joint j = testing_joint::joint(R"(
input %0 : f32[1024] = argument "x"
input %1 : f32[1024] = argument "tangent"
%2 : f32[1024] = aten::bernoulli.p(%0, 0.5)
%3 : f32[1024] = aten::mul.Tensor(%0, %2)
%4 : f32[1024] = aten::mul.Tensor(%1, %2)
output %3
output %4
)",
                                                1, 1);
  EXPECT_EQ(testing_joint::choose(j).bytes, 4096);
  narrow_masks(*j.graph);
  verify(*j.graph);
  EXPECT_EQ(names(*j.graph),
            (Names{"aten::bernoulli.p", "aten::ne.Scalar", "aten::_to_copy", "aten::mul.Tensor", "aten::mul.Tensor"}));
  const SavedValues c = testing_joint::choose(j);
  EXPECT_EQ(c.bytes, 1024);
  EXPECT_EQ(c.eager_bytes, 4096);
  ASSERT_EQ(c.kept.size(), 1u);
  EXPECT_EQ(c.kept[0].why, KeptFor::Random);
}

TEST(SplitJoint, AMaskThatIsReturnedStays) {
  testing_joint::Joint j = testing_joint::joint(R"(
input %0 : f32[8] = argument "x"
input %1 : f32[8] = argument "tangent"
%2 : f32[8] = aten::bernoulli.p(%0, 0.5)
%3 : f32[8] = aten::mul.Tensor(%1, %2)
output %2
output %3
)",
                                                1, 1);
  narrow_masks(*j.graph);
  EXPECT_EQ(j.graph->node_count(), 2u);
}

std::string text_of_attention(double dropout) {
  testing_joint::Joint j = testing_joint::joint(fmt::format(R"(
input %0 : f32[2, 4, 512, 64]@cuda:0 = argument "x"
input %1 : i64[]@cuda:0 = argument "tangent"
%2 : f32[2, 4, 512, 64]{{131072, 64, 256, 1}}@cuda:0, %3 : f32[2, 4, 512]@cuda:0, %4 : i64[], %5 : i64[] = aten::_scaled_dot_product_efficient_attention(%0, %0, %0, none, true, {:.1f})
%6 : i64[]@cuda:0 = aten::add.Tensor(%1, %4)
%7 : i64[]@cuda:0 = aten::add.Tensor(%6, %5)
output %2
output %7
)",
                                                            dropout),
                                                1, 1);
  replace_unread_random_states(*j.graph);
  verify(*j.graph);
  return print(*j.graph);
}

TEST(SplitJoint, AttentionWithoutDropoutHasNoRandomState) {
  const std::string text = text_of_attention(0);
  EXPECT_NE(text.find("@cuda:0 = aten::zeros("), std::string::npos) << text;
  EXPECT_NE(text.find("%4 : i64[], %5 : i64[]"), std::string::npos) << text;
  EXPECT_EQ(text.find("(%1, %4)"), std::string::npos) << text;
  EXPECT_NE(text_of_attention(0.5).find("(%1, %4)"), std::string::npos);
}

}  // namespace
}  // namespace vesta::graph
