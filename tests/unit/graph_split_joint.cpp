// The halves of a joint graph: what the backward half computes again, and when; masks that are saved as booleans.
#include <algorithm>

#include "joint_graph.h"

#include "graph/joint.h"

#include <fmt/format.h>

namespace vesta::graph {
namespace {

Halves halves(testing_joint::Joint j, const std::vector<uint32_t>& saved, const std::vector<uint32_t>& copied = {}) {
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
  std::vector<Value*> chosen, copies;
  const auto note = [&](Value* v) {
    if (v && std::ranges::find(saved, v->id) != saved.end()) chosen.push_back(v);
    if (v && std::ranges::find(copied, v->id) != copied.end()) copies.push_back(v);
  };
  for (const Input& i : j.graph->inputs) note(i.value);
  bool is_backward = false;
  j.graph->for_each_node([&](Node* n) {
    n->for_each_input([&](const Value* v) { is_backward |= v == j.graph->inputs[j.first_tangent].value; });
    if (is_backward && !joint.first_backward) joint.first_backward = n;
    for (Value* v : n->results) note(v);
  });
  return split(std::move(j.graph), joint, chosen, copies);
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

TEST(SplitJoint, ACopyOfAnInputIsAnOutputOfTheForwardHalf) {
  constexpr const char* kText = R"(
input %0 : f32[64] = argument "x"
input %1 : f32[64] = argument "tangent"
%2 : f32[64] = aten::sin(%0)
%3 : f32[64] = aten::mul.Tensor(%1, %2)
output %2
output %3
)";
  for (const bool copied : {false, true}) {
    const Halves h =
        halves(testing_joint::joint(kText, 1, 1), {0}, copied ? std::vector<uint32_t>{0} : std::vector<uint32_t>());
    ASSERT_EQ(h.saved.size(), 1u);
    EXPECT_EQ(h.saved[0].from, copied ? Saved::From::Output : Saved::From::Input);
    ASSERT_EQ(h.forward->outputs.size(), copied ? 2u : 1u);
    verify(*h.forward);
    if (!copied) continue;
    EXPECT_EQ(h.saved[0].index, 1);
    EXPECT_EQ(h.forward->outputs[1].kind, OutputKind::Fresh);
    EXPECT_EQ(h.forward->outputs[1].value, h.forward->inputs[0].value);
  }
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

TEST(SplitJoint, AnOutputThatTheProgramMayWriteToIsCopied) {
  constexpr const char* kText = R"(
input %0 : f32[64] = argument "x"
input %1 : f32[64] = argument "tangent"
%2 : f32[64] = aten::sin(%0)
%3 : f32[64] = aten::exp(%2)
%4 : f32[64] = aten::mul.Tensor(%1, %2)
output %2
output %3
output %4
)";
  const Halves h = halves(testing_joint::joint(kText, 1, 1), {2}, {2});
  verify(*h.forward);
  EXPECT_EQ(names(*h.forward), (Names{"aten::sin", "aten::clone", "aten::exp"}));
  ASSERT_EQ(h.saved.size(), 1u);
  EXPECT_EQ(h.forward->outputs.at(static_cast<size_t>(h.saved[0].index)).value->producer->op->name, "aten::clone");
  EXPECT_EQ(h.forward->outputs.at(0).value->producer->op->name, "aten::sin");
  EXPECT_EQ(names(*h.backward.at(0).graph), Names{"aten::mul.Tensor"});
  EXPECT_EQ(halves(testing_joint::joint(kText, 1, 1), {2}).saved.at(0).index, 0);  // the output itself
}

// The loss of bf16 logits, which the program returns.
constexpr const char* kLoss = R"(
input %0 : bf16[4096, 768] = argument "x"
input %1 : bf16[768, 5000] = parameter "w"
input %2 : f32[4096, 5000] = argument "tangent"
%3 : bf16[4096, 5000] = aten::mm(%0, %1)
%4 : f32[4096, 5000] = aten::_to_copy(%3, dtype=dtype.f32)
%5 : f32[4096, 5000] = aten::_log_softmax(%4, 1, false)
%6 : f32[4096] = aten::sum.dim_IntList(%5, [1])
%7 : f32[4096, 5000] = aten::_log_softmax_backward_data(%2, %5, 1, dtype.f32)
%8 : bf16[4096, 5000] = aten::_to_copy(%7, dtype=dtype.bf16)
output %3
output %6
output %8
)";

TEST(SplitJoint, ASoftmaxInAWiderTypeIsComputedAgainFromItsNarrowOperand) {
  testing_joint::Joint j = testing_joint::joint(kLoss, 1, 1);
  const int64_t wide = int64_t{4096} * 5000 * 4;
  EXPECT_EQ(testing_joint::choose(j).bytes, wide);
  Joint joint{.first_tangent = j.first_tangent, .first_gradient = j.first_gradient};
  j.graph->for_each_node([&](Node* n) {
    if (n->op->name == "aten::_log_softmax_backward_data") joint.first_backward = n;
  });
  const std::vector<Node*> found = find_wide_softmax(*j.graph, joint);
  ASSERT_EQ(found.size(), 1u);
  divide_softmax(*j.graph, found);
  verify(*j.graph);
  const SavedValues c = testing_joint::choose(j);
  EXPECT_EQ(c.eager_bytes, wide);
  EXPECT_EQ(c.bytes, wide / 2 + 2 * 4096 * 4);  // the logits, and two numbers for each row
  EXPECT_EQ(c.copied.size(), 1u);
}

TEST(SplitJoint, ASoftmaxStaysWholeWhereNothingIsGained) {
  const auto found = [](std::string_view text, const CheckpointRegion& region = {}) {
    const auto graph = parse(text);
    return find_wide_softmax(*graph, Joint{.checkpoints = {region}}).size();
  };
  std::string narrow = kLoss;
  EXPECT_EQ(found(narrow), 1u);
  EXPECT_EQ(found(narrow, {5, 6}), 0u);  // in a checkpoint region
  narrow.replace(narrow.find("output %6"), 9, "output %5");
  EXPECT_EQ(found(narrow), 0u);  // the program returns it
  EXPECT_EQ(found(R"(
input %0 : f32[8, 8] = argument "x"
%1 : f32[8, 8] = aten::_softmax(%0, 1, false)
%2 : f32[8, 8] = aten::neg(%1)
output %2
)"),
            0u);  // its operand is as wide
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

// Batch norm of running statistics %3 and %4, with the gradient of its input.
std::string text_of_batch_norm(std::string_view training, const Joint& joint) {
  const auto graph = parse(fmt::format(R"(
input %0 : f32[4, 8, 16, 16]@cuda:0 = argument "x"
input %1 : f32[8]@cuda:0 = parameter "weight"
input %2 : f32[8]@cuda:0 = parameter "bias"
input %3 : f32[8]@cuda:0 = parameter "running_mean"
input %4 : f32[8]@cuda:0 = parameter "running_var"
input %5 : f32[4, 8, 16, 16]@cuda:0 = argument "tangent"
%6 : f32[4, 8, 16, 16]@cuda:0, %7 : f32[8]@cuda:0, %8 : f32[8]@cuda:0, %9 : f32[8]@cuda:0, %10 : f32[8]@cuda:0 = aten::_native_batch_norm_legit_functional(%0, %1, %2, %3, %4, {0}, 0.1, 1e-05)
%11 : f32[4, 8, 16, 16]@cuda:0, %12 : f32[8]@cuda:0, %13 : f32[8]@cuda:0 = aten::native_batch_norm_backward(%5, %0, %1, %9, %10, %7, %8, {0}, 1e-05, [true, true, true])
output %6
output %11
mutate input 3 = %9
mutate input 4 = %10
)",
                                       training));
  separate_running_statistics(*graph, joint);
  verify(*graph);
  return print(*graph);
}

TEST(SplitJoint, RunningStatisticsAreForTheirUpdateAlone) {
  const std::string text = text_of_batch_norm("true", {});
  EXPECT_NE(text.find("= aten::_native_batch_norm_legit.no_stats(%0, %1, %2, true, 0.1, 1e-05)"), std::string::npos)
      << text;
  EXPECT_NE(text.find("native_batch_norm_backward(%5, %0, %1, none, none, %15, %16, true"), std::string::npos) << text;
  EXPECT_NE(text.find("output %14\n"), std::string::npos) << text;
}

TEST(SplitJoint, BatchNormStaysWholeOutsideOfTrainingAndInCheckpoints) {
  const std::string inference = text_of_batch_norm("false", {});
  EXPECT_EQ(inference.find("no_stats"), std::string::npos) << inference;
  EXPECT_NE(inference.find("backward(%5, %0, %1, %9, %10"), std::string::npos) << inference;
  EXPECT_EQ(text_of_batch_norm("true", {.checkpoints = {{6, 11}}}).find("no_stats"), std::string::npos);
}

}  // namespace
}  // namespace vesta::graph
