// The C++ entry point with torch::nn modules and functionals.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "vesta/compile.h"

namespace {

using torch::Tensor;

bool close(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() && at::allclose(a, b, 1e-4, 1e-5);
}

template <class Module>
auto expect_eager(Module module, const Tensor& x) {
  torch::NoGradGuard guard;
  module->eval();
  auto f = vesta::compile(module);
  const Tensor expected = module->forward(x);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(close(f(x), expected));
  auto report = f.report();
  EXPECT_TRUE(report.fallbacks.empty()) << f.explain();
  EXPECT_EQ(report.variants.size(), 1u);
  return report;
}

bool calls(const vesta::FunctionReport& report, const std::string& op) {
  for (const auto& variant : report.variants) {
    for (const auto& call : variant.externs) {
      if (call.op.find(op) != std::string::npos) return true;
    }
  }
  return false;
}

TEST(CaptureModules, LinearIsAKernelOrUsesTheLibrary) {
  // Large enough for the library to pay.
  for (const bool bias : {true, false}) {
    torch::nn::Linear linear(torch::nn::LinearOptions(256, 512).bias(bias));
    EXPECT_FALSE(calls(expect_eager(linear, torch::randn({64, 256})), "linear")) << bias;
    EXPECT_FALSE(calls(expect_eager(linear, torch::randn({4, 16, 256})), "linear")) << bias;
    // Two rows are too few for a kernel, and a weight of so many elements is worth the library's call.
    torch::nn::Linear large(torch::nn::LinearOptions(1024, 2048).bias(bias));
    EXPECT_TRUE(calls(expect_eager(large, torch::randn({2, 1024})), "_linear_pointwise")) << bias;
  }
}

TEST(CaptureModules, Convolution) {
  expect_eager(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).padding(1)), torch::randn({2, 3, 16, 16}));
}

TEST(CaptureModules, LayerNorm) {
  expect_eager(torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})), torch::randn({4, 32}));
}

TEST(CaptureModules, TransformerDecoderLayer) {
  torch::NoGradGuard guard;
  torch::nn::TransformerDecoderLayer layer(torch::nn::TransformerDecoderLayerOptions(32, 4).dim_feedforward(64));
  layer->eval();
  const Tensor x = torch::randn({5, 2, 32}), memory = torch::randn({7, 2, 32});
  auto f = vesta::compile([layer](const Tensor& t, const Tensor& m) mutable { return layer->forward(t, m); });
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(close(f(x, memory), layer->forward(x, memory)));
  EXPECT_TRUE(f.report().fallbacks.empty()) << f.explain();
}

TEST(CaptureModules, TransformerEncoderLayer) {
  torch::NoGradGuard guard;
  torch::nn::TransformerEncoderLayer layer(torch::nn::TransformerEncoderLayerOptions(32, 4).dim_feedforward(64));
  layer->eval();
  const Tensor x = torch::randn({5, 2, 32});
  auto f = vesta::compile([layer](const Tensor& t) mutable { return layer->forward(t); });
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(close(f(x), layer->forward(x)));
  EXPECT_TRUE(f.report().fallbacks.empty()) << f.explain();
  // LibTorch's attention asks torch::equal(query, key), which is false where there are NaNs: such a call runs eager.
  const Tensor bad = x.clone();
  bad[1][1][3] = NAN;
  EXPECT_TRUE(at::allclose(f(bad), layer->forward(bad), 1e-4, 1e-5, /*equal_nan=*/true));
  ASSERT_EQ(f.report().fallbacks.size(), 1u);
  EXPECT_NE(f.report().fallbacks[0].reason.find("holds a NaN"), std::string::npos) << f.explain();
  EXPECT_TRUE(close(f(x), layer->forward(x)));
  EXPECT_EQ(f.report().fallbacks[0].count, 1);
}

TEST(CaptureModules, TrainAndEvalAreSeenAndWeightsFollow) {
  torch::NoGradGuard guard;
  torch::nn::Sequential net(torch::nn::Linear(8, 16), torch::nn::BatchNorm1d(16), torch::nn::ReLU(),
                            torch::nn::Linear(16, 4));
  auto f = vesta::compile([net](const Tensor& t) mutable { return net->forward(t); });
  net->eval();
  const Tensor x = torch::randn({6, 8});
  EXPECT_TRUE(close(f(x), net->forward(x)));
  for (Tensor& p : net->parameters()) p.mul_(1.5);
  EXPECT_TRUE(close(f(x), net->forward(x)));

  torch::nn::BatchNorm1d norm(8), second(8);
  auto g = vesta::compile(norm);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(close(g(x), second->forward(x)));
    EXPECT_TRUE(close(norm->running_mean, second->running_mean) && close(norm->running_var, second->running_var));
  }
  norm->eval();
  second->eval();
  EXPECT_TRUE(close(g(x), second->forward(x)));
}

TEST(CaptureModules, Functionals) {
  namespace F = torch::nn::functional;
  torch::NoGradGuard guard;
  auto program = [](const Tensor& x, const Tensor& w) {
    Tensor y = F::gelu(F::linear(x, w));
    y = F::layer_norm(y, F::LayerNormFuncOptions({w.size(0)}));
    return F::softmax(F::pad(y, F::PadFuncOptions({1, 2})), F::SoftmaxFuncOptions(-1));
  };
  auto f = vesta::compile(program);
  const Tensor x = torch::randn({3, 8}), w = torch::randn({6, 8});
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(close(f(x, w), program(x, w)));
  EXPECT_TRUE(f.report().fallbacks.empty()) << f.explain();
}

}  // namespace
