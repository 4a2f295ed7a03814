// Gradients through vesta::compile: compiled programs train as eager ones do.
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <optional>
#include <utility>
#include <variant>

#include "vesta/compile.h"

namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

bool close(const Tensor& a, const Tensor& b) { return a.defined() && at::allclose(a, b, 1e-4, 1e-5); }

Tensor leaf(at::IntArrayRef sizes) { return at::randn(sizes).requires_grad_(); }
Tensor copy(const Tensor& t) { return t.detach().clone().requires_grad_(t.requires_grad()); }

TEST(CaptureGradients, LeavesGetEagersGradients) {
  const auto program = [](const Tensor& x, const Tensor& w) { return at::gelu(at::mm(x, w)).sin(); };
  const auto f = vesta::compile(program, {.strict = true});
  const Tensor x = leaf({5, 4}), w = leaf({4, 3}), x2 = copy(x), w2 = copy(w);
  for (int i = 0; i < 3; ++i) {
    const Tensor y = f(x, w);
    EXPECT_TRUE(y.requires_grad() && y.grad_fn() && close(y, program(x2, w2)));
    y.pow(2).sum().backward();
    program(x2, w2).pow(2).sum().backward();
    EXPECT_TRUE(close(x.grad(), x2.grad()) && close(w.grad(), w2.grad()));
  }
  EXPECT_EQ(f.report().hits, 2);
  EXPECT_TRUE(f.report().fallbacks.empty());
}

TEST(CaptureGradients, InferenceAndTrainingAreVariantsOfTheirOwn) {
  const auto f = vesta::compile([](const Tensor& x) { return at::tanh(x) * 2; }, {.strict = true});
  const Tensor x = leaf({4, 4});
  EXPECT_TRUE(f(x).requires_grad());
  EXPECT_FALSE(f(x.detach()).requires_grad());
  {
    const at::NoGradGuard off;
    EXPECT_FALSE(f(x).requires_grad());
  }
  EXPECT_TRUE(f(x).requires_grad());
  EXPECT_EQ(f.report().variants.size(), 3u);
}

TEST(CaptureGradients, ResultsThatNoLossDependsOn) {
  const auto f = vesta::compile(
      [](const Tensor& x, const Tensor& w) -> std::tuple<Tensor, Tensor> {
        const Tensor h = at::mm(x, w);
        return {h.exp(), h.sigmoid()};
      },
      {.strict = true});
  const Tensor x = leaf({5, 4}), w = leaf({4, 3}), x2 = copy(x), w2 = copy(w);
  std::get<1>(f(x, w)).sum().backward();
  at::mm(x2, w2).sigmoid().sum().backward();
  EXPECT_TRUE(close(x.grad(), x2.grad()) && close(w.grad(), w2.grad()));
}

TEST(CaptureGradients, AGraphIsFreedByItsPass) {
  const auto f = vesta::compile([](const Tensor& x) { return x.exp().sum(); }, {.strict = true});
  const Tensor x = leaf({3});
  const Tensor loss = f(x);
  loss.backward({}, /*keep_graph=*/true);
  loss.backward();
  EXPECT_TRUE(close(x.grad(), 2 * x.exp()));
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(CaptureGradients, AnInputThatChangedBeforeThePassIsAnError) {
  const auto f = vesta::compile([](const Tensor& x, const Tensor& w) { return (x * w).sum(); }, {.strict = true});
  const Tensor x = leaf({3}), w = at::randn({3});
  const Tensor loss = f(x, w);
  w.add_(1);
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(CaptureGradients, GradientsHaveGradients) {
  const auto f = vesta::compile([](const Tensor& x) { return (x * x * x).sum(); }, {.strict = true});
  const Tensor x = leaf({4});
  const Tensor first = torch::autograd::grad({f(x)}, {x}, {}, true, /*create_graph=*/true)[0];
  EXPECT_TRUE(close(first, 3 * x * x));
  EXPECT_TRUE(close(torch::autograd::grad({first.sum()}, {x})[0], 6 * x));
}

TEST(CaptureGradients, WhatIsDetachedIsAConstantForSecondDerivativesToo) {
  const auto f = vesta::compile([](const Tensor& x) { return (x * x * x.detach()).sum(); }, {.strict = true});
  const Tensor x = leaf({4});
  const Tensor first = torch::autograd::grad({f(x)}, {x}, {}, true, /*create_graph=*/true)[0];
  EXPECT_TRUE(close(first, 2 * x * x));
  EXPECT_TRUE(close(torch::autograd::grad({first.sum()}, {x})[0], 2 * x));
}

TEST(CaptureGradients, AWriteThatAutogradDoesNotSeeHasNoSecondDerivative) {
  const auto program = [](const Tensor& x) {
    const Tensor y = x * 2;
    y.detach().mul_(x.detach());
    return (y * x).sum();
  };
  const auto f = vesta::compile(program, {.strict = true});
  const Tensor x = leaf({4}), x2 = copy(x);
  const Tensor first = torch::autograd::grad({f(x)}, {x}, {}, true, /*create_graph=*/true)[0];
  EXPECT_TRUE(close(first, torch::autograd::grad({program(x2)}, {x2})[0]));
  EXPECT_THROW(torch::autograd::grad({first.sum()}, {x}), c10::Error);
}

TEST(CaptureGradients, AnInputIsWritten) {
  const auto program = [](const Tensor& x, const Tensor& w) {
    x.mul_(w);
    return x.sin();
  };
  const auto f = vesta::compile(program, {.strict = true});
  const auto gradients = [](const auto& call) {
    at::manual_seed(3);
    const Tensor start = leaf({4}), w = leaf({4});
    const Tensor x = start * 2;
    const Tensor y = call(x, w);
    (y.sum() + (x * x).sum()).backward();
    return Tensors{x.detach(), y.detach(), start.grad(), w.grad()};
  };
  const Tensors eager = gradients(program);
  for (int call = 0; call < 2; ++call) {
    const Tensors ours = gradients(f);
    for (size_t i = 0; i < eager.size(); ++i) EXPECT_TRUE(close(ours[i], eager[i])) << i;
  }
}

TEST(CaptureGradients, AModuleTrains) {
  namespace nn = torch::nn;
  const auto steps = [](bool compiled) {
    at::manual_seed(0);
    nn::Sequential model(nn::Conv2d(nn::Conv2dOptions(1, 4, 3)), nn::BatchNorm2d(4), nn::ReLU(), nn::Flatten(),
                         nn::Linear(4 * 36, 10));
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    const auto loss_of = [model](const Tensor& x, const Tensor& labels) mutable {
      return nn::functional::cross_entropy(model->forward(x), labels);
    };
    const auto f = vesta::compile(loss_of, {.strict = true});
    auto eager = loss_of;
    std::vector<double> losses;
    for (int i = 0; i < 5; ++i) {
      const Tensor x = at::randn({8, 1, 8, 8}), labels = at::randint(10, {8}, at::kLong);
      optimizer.zero_grad();
      const Tensor loss = compiled ? f(x, labels) : eager(x, labels);
      loss.backward();
      optimizer.step();
      losses.push_back(loss.item<double>());
    }
    if (compiled) {
      EXPECT_EQ(f.report().variants.size(), 1u);
    }
    return losses;
  };
  const std::vector<double> ours = steps(true), eager = steps(false);
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_NEAR(ours[i], eager[i], 1e-3 * eager[i]);
}

struct Doubled : torch::autograd::Function<Doubled> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) { return x * 2; }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext*, torch::autograd::tensor_list g) {
    return {g[0] * 5};
  }
};

TEST(CaptureGradients, AFunctionOfTheProgramsOwn) {
  const auto f = vesta::compile([](const Tensor& x) { return Doubled::apply(x) * 3; }, {.strict = true});
  const Tensor x = leaf({3});
  f(x).sum().backward();
  EXPECT_TRUE(close(x.grad(), at::full({3}, 15.0)));
  EXPECT_TRUE(f.report().fallbacks.empty());
}

// Counts the bytes of tensors on the CPU that are allocated and not freed while it is in use.
struct HeldBytes final : c10::MemoryReportingInfoBase {
  int64_t bytes = 0;
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override { bytes += size; }
  bool memoryProfilingEnabled() const override { return true; }
};

TEST(CaptureGradients, ActivationMemoryBoundsWhatIsHeldForThePass) {
  constexpr int64_t kLayers = 6, kBytes = 128 * 128 * 4;  // of a weight and of an activation
  const auto program = [](Tensor x, const Tensors& weights) {
    for (const Tensor& w : weights) x = at::gelu(at::mm(x, w));
    return x;
  };
  const Tensor x = at::randn({128, 128});
  Tensors weights;
  for (int64_t i = 0; i < kLayers; ++i) weights.push_back(at::randn({128, 128}).div_(11).requires_grad_());
  Tensors kept;  // so that no later call gets their memory
  // Bytes between the passes, without the result, and the gradients.
  const auto train = [&](const auto& call) {
    call(x, weights).sum().backward();  // compiles
    for (const Tensor& w : weights) w.mutable_grad() = Tensor();
    const auto held = std::make_shared<HeldBytes>();
    {
      const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, held);
      kept.push_back(call(x, weights));
    }
    const int64_t bytes = held->bytes - static_cast<int64_t>(kept.back().nbytes());
    kept.back().sum().backward();
    Tensors gradients;
    for (const Tensor& w : weights) gradients.push_back(std::exchange(w.mutable_grad(), Tensor()));
    return std::pair(bytes, gradients);
  };
  const auto [eager, expected] = train(program);
  EXPECT_EQ(eager, (2 * kLayers - 1) * kBytes);  // the argument of each gelu, and of each product but the first
  const auto check = [&](std::optional<std::variant<double, int64_t>> bound, int64_t most) {
    const auto f = vesta::compile(program, {.strict = true, .activation_memory = bound});
    const auto [bytes, gradients] = train(f);
    EXPECT_LE(bytes, most);
    EXPECT_TRUE(f.report().fallbacks.empty());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(close(gradients[i], expected[i])) << i;
    return bytes;
  };
  const int64_t all = check(std::nullopt, eager);
  EXPECT_GT(all, eager / 2);
  EXPECT_GT(check(0.5, eager / 2), 0);
  check(int64_t{3} * kBytes, 3 * kBytes);
  check(0.0, 0);
}

TEST(CaptureGradients, SymbolicSizes) {
  const auto program = [](const Tensor& x, const Tensor& w) { return at::softmax(at::mm(x, w), -1); };
  const auto f = vesta::compile(program, {.dynamic = true, .strict = true});
  const Tensor w = leaf({4, 6}), w2 = copy(w);
  for (const int64_t rows : {3, 8, 5}) {
    const Tensor x = leaf({rows, 4}), x2 = copy(x);
    f(x, w).pow(2).sum().backward();
    program(x2, w2).pow(2).sum().backward();
    EXPECT_TRUE(close(x.grad(), x2.grad()) && close(w.grad(), w2.grad()));
  }
  EXPECT_EQ(f.report().variants.size(), 1u);
}

}  // namespace
