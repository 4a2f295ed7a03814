// Layers of a model: groups that compute the same with other weights share one kernel.
#include <fmt/format.h>

#include <set>

#include "schedule_run.h"

namespace {

using namespace vesta;
using namespace vesta::testing;
using schedule::KernelStep;

constexpr const char* kHead = R"(input %0 : f32[4, 64] = argument "x"
)";

// A layer that scales by its weight, and a product that separates it from the next one.
std::string layer(int n, const std::string& scale) {
  const int w = 1000 + 2 * n, first = 10 * n + 1, x = n == 0 ? 0 : first - 7;
  return fmt::format(R"(%{0} : f32[4, 64] = aten::mul.Tensor(%{1}, %{2})
%{3} : f32[4, 64] = aten::add.Scalar(%{0}, {4})
%{5} : f32[4, 64] = aten::mm(%{3}, %{6})
)",
                     first, x, w, first + 1, scale, first + 3, w + 1);
}

std::unique_ptr<graph::Graph> model(const std::vector<std::string>& scales) {
  std::string text = kHead, body;
  for (size_t n = 0; n < scales.size(); ++n) {
    text += fmt::format("input %{} : f32[64] = parameter \"w\"\ninput %{} : f32[64, 64] = parameter \"m\"\n",
                        1000 + 2 * n, 1001 + 2 * n);
    body += layer(static_cast<int>(n), scales[n]);
  }
  return graph::parse(text + body + fmt::format("output %{}\n", 10 * (scales.size() - 1) + 4));
}

std::vector<const KernelStep*> kernels_of(const schedule::Plan& plan) {
  std::vector<const KernelStep*> out;
  for (const schedule::Step& s : plan.steps)
    if (const auto* k = std::get_if<KernelStep>(&s)) out.push_back(k);
  return out;
}

TEST(Layers, EqualOnesShareTheirKernel) {
  const auto g = model({"3.0", "1.0", "1.0", "1.0"});  // the first one reads an input, which nothing writes
  const schedule::Plan plan = schedule::make_plan(*g, {});
  auto kernels = kernels_of(plan);
  ASSERT_EQ(kernels.size(), 4u) << schedule::print(plan);
  kernels.erase(kernels.begin());
  std::set<int> written, weights;
  std::set<uint32_t> values;
  for (const KernelStep* k : kernels) {
    EXPECT_EQ(k->kernel, kernels[0]->kernel);
    EXPECT_EQ(k->text, kernels[0]->text);
    EXPECT_EQ(k->ops, kernels[0]->ops);
    ASSERT_EQ(k->args.size(), 3u);
    weights.insert(k->args[1].buffer);
    written.insert(k->args[2].buffer);
    values.insert(k->values.begin(), k->values.end());
  }
  EXPECT_EQ(weights.size(), 3u);
  EXPECT_EQ(written.size(), 3u);
  EXPECT_EQ(values.size(), 6u);
  EXPECT_EQ(schedule::print(plan_with_dags(*g, {})), schedule::print(plan));
}

TEST(Layers, OtherConstantsAreOtherKernels) {
  // -0.0 and 0.0 are equal numbers, and other constants.
  const auto g = model({"3.0", "1.0", "2.0", "1.0", "0.0", "-0.0"});
  const schedule::Plan plan = schedule::make_plan(*g, {});
  std::set<std::string> texts;
  std::set<const void*> kernels;
  for (const KernelStep* k : kernels_of(plan)) {
    texts.insert(k->text);
    kernels.insert(k->kernel.get());
  }
  EXPECT_EQ(texts.size(), 5u) << schedule::print(plan);
  EXPECT_EQ(kernels.size(), 5u);
  plan_with_dags(*g, {});
}

}  // namespace
