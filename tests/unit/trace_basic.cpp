#include <gtest/gtest.h>
#include <torch/torch.h>

#include "base/check.h"
#include "trace_interpreter.h"

namespace vesta::trace::test {
namespace {

using Tensors = std::vector<at::Tensor>;

class Trace : public testing::Test {
  torch::NoGradGuard no_grad_;
};

TEST_F(Trace, PointwiseChain) {
  const auto t =
      check({at::randn({3, 4}), at::randn({4})}, [](const Tensors& x) { return Tensors{at::silu(x[0] * x[1] + 2.5)}; });
  EXPECT_TRUE(has_op(t, "aten::silu")) << text(t);
  EXPECT_TRUE(has_op(t, "aten::add.Scalar")) << text(t);
  EXPECT_EQ(t.op_count, 3);
}

TEST_F(Trace, ModuleParametersAreLiftedOnce) {
  torch::nn::Sequential mlp(torch::nn::Linear(8, 16), torch::nn::GELU(), torch::nn::Linear(16, 8),
                            torch::nn::LayerNorm(torch::nn::LayerNormOptions({8})));
  const auto t =
      check({at::randn({5, 8})}, [&](const Tensors& x) { return Tensors{mlp->forward(mlp->forward(x[0]))}; });
  EXPECT_EQ(t.lifted.size(), 6u);
  EXPECT_EQ(t.graph->inputs.size(), 7u);
  EXPECT_EQ(t.graph->inputs[1].kind, graph::InputKind::Parameter);
  EXPECT_TRUE(has_op(t, "aten::addmm")) << text(t);
  const auto whole = check({at::randn({2, 5, 8}), at::randn({4, 8})},
                           [&](const Tensors& x) { return Tensors{at::linear(x[0], x[1])}; });
  EXPECT_TRUE(has_op(whole, "aten::linear")) << text(whole);
}

// A pre-norm decoder block as LibTorch users write it.
struct Block : torch::nn::Module {
  torch::nn::LayerNorm norm1{torch::nn::LayerNormOptions({16})}, norm2{torch::nn::LayerNormOptions({16})};
  torch::nn::Linear qkv{16, 48}, out{16, 16}, up{16, 32}, down{32, 16};
  Block() {
    register_module("norm1", norm1), register_module("norm2", norm2), register_module("qkv", qkv);
    register_module("out", out), register_module("up", up), register_module("down", down);
  }
  at::Tensor forward(at::Tensor x) {
    const int64_t b = x.size(0), t = x.size(1);
    const auto parts = qkv(norm1(x)).chunk(3, -1);
    const auto heads = [&](const at::Tensor& y) { return y.view({b, t, 2, 8}).transpose(1, 2); };
    at::Tensor scores = at::matmul(heads(parts[0]), heads(parts[1]).transpose(-2, -1)) / 2.8;
    const at::Tensor mask = at::ones({t, t}, at::kBool).tril();
    scores = scores.masked_fill(mask.logical_not(), -1e9);
    const at::Tensor y = at::matmul(at::softmax(scores, -1), heads(parts[2])).transpose(1, 2).reshape({b, t, 16});
    x = x + out(y);
    return x + down(at::gelu(up(norm2(x))));
  }
};

TEST_F(Trace, TransformerBlock) {
  Block block;
  const auto t = check({at::randn({2, 5, 16})}, [&](const Tensors& x) { return Tensors{block.forward(x[0])}; });
  EXPECT_EQ(t.lifted.size(), 12u);
}

TEST_F(Trace, ScaledDotProductAttention) {
  check({at::randn({2, 3, 5, 8}), at::randn({2, 3, 5, 8}), at::randn({2, 3, 5, 8})},
        [](const Tensors& x) { return Tensors{at::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0.0, true)}; });
}

TEST_F(Trace, ConvolutionAndBatchNorm) {
  torch::nn::Sequential net(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).padding(1)), torch::nn::BatchNorm2d(8),
                            torch::nn::ReLU(), torch::nn::MaxPool2d(2), torch::nn::AdaptiveAvgPool2d(1),
                            torch::nn::Flatten());
  net->eval();
  check({at::randn({2, 3, 8, 8})}, [&](const Tensors& x) { return Tensors{net->forward(x[0])}; });
  check({at::randn({2, 3, 8, 8}).contiguous(at::MemoryFormat::ChannelsLast)},
        [&](const Tensors& x) { return Tensors{net->forward(x[0])}; });
}

TEST_F(Trace, ReadingAValueIsTyped) {
  const auto program = [](const Tensors& x) { return Tensors{x[0].sum().item<float>() > 0 ? x[0] : -x[0]}; };
  EXPECT_THROW(trace(trace_inputs({at::randn({3})}), boxed(program)), NeedsValue);
  EXPECT_THROW(
      trace(trace_inputs({at::randn({3})}), boxed([](const Tensors& x) { return Tensors{at::nonzero(x[0])}; })),
      NeedsValue);
  EXPECT_THROW(
      trace(trace_inputs({at::randn({3})}), boxed([](const Tensors& x) { return Tensors{x[0].index({x[0] > 0})}; })),
      NeedsValue);
  EXPECT_THROW(trace(trace_inputs({at::randn({3})}),
                     boxed([](const Tensors& x) { return Tensors{at::masked_select(x[0], x[0] > 0)}; })),
               NeedsValue);
  EXPECT_THROW(trace(trace_inputs({at::randn({3}), at::randn({3})}),
                     boxed([](const Tensors& x) { return at::equal(x[0], x[1]) ? x : Tensors{}; })),
               NeedsValue);
  EXPECT_FALSE(is_tracing());
}

TEST_F(Trace, EqualTensorsThatAreOneOrHaveOtherSizes) {
  const auto program = [](const Tensors& x) {
    return Tensors{at::equal(x[0], x[0]) && !at::equal(x[0], x[1]) ? x[0] + 1 : x[0] - 1};
  };
  check({at::randn({3}), at::randn({4})}, program);
  check({at::arange(3), at::arange(4)}, program);
  // The check for NaNs may send the call to eager, which would draw again.
  const auto draws = [](const Tensors& x) {
    const at::Tensor y = at::dropout(x[0], 0.5, true);
    return Tensors{at::equal(y, y) ? y : -y};
  };
  EXPECT_THROW(trace(trace_inputs({at::randn({3})}), boxed(draws)), NeedsValue);
}

TEST_F(Trace, AProgramCannotSwallowTheReason) {
  const auto program = [](const Tensors& x) {
    try {
      (void)x[0].sum().item<float>();
    } catch (const std::exception&) {
    }
    return Tensors{x[0] + 1};
  };
  EXPECT_THROW(trace(trace_inputs({at::randn({3})}), boxed(program)), NeedsValue);
}

TEST_F(Trace, ThreadStateIsRestoredAfterAnException) {
  const auto before = c10::impl::tls_local_dispatch_key_set();
  EXPECT_THROW(
      trace(trace_inputs({at::randn({3})}), boxed([](const Tensors&) -> Tensors { throw std::runtime_error("mine"); })),
      std::runtime_error);
  const auto after = c10::impl::tls_local_dispatch_key_set();
  EXPECT_EQ(before.included_.raw_repr(), after.included_.raw_repr());
  EXPECT_EQ(before.excluded_.raw_repr(), after.excluded_.raw_repr());
  EXPECT_EQ((at::ones({2}) + 1).sum().item<float>(), 4);
}

TEST_F(Trace, GradientsAreRefused) {
  torch::AutoGradMode on(true);
  at::Tensor w = at::randn({3}).requires_grad_();
  EXPECT_THROW(trace(trace_inputs({at::randn({3})}), boxed([&](const Tensors& x) { return Tensors{x[0] * w}; })),
               Unsupported);
  EXPECT_THROW(trace(trace_inputs({w}), boxed([&](const Tensors& x) { return Tensors{x[0] * 2}; })), Unsupported);
  torch::NoGradGuard off;
  EXPECT_NO_THROW(trace(trace_inputs({w}), boxed([&](const Tensors& x) { return Tensors{x[0] * 2}; })));
}

TEST_F(Trace, StrangeInputsAreRefusedWithAReason) {
  const auto same = boxed([](const Tensors& x) { return Tensors{x[0] + 1}; });
  EXPECT_THROW(trace(trace_inputs({at::ones({2, 2}).to_sparse()}), same), Unsupported);
  EXPECT_THROW(trace(trace_inputs({at::empty({2}, at::kMeta)}), same), Unsupported);
  EXPECT_THROW(trace(trace_inputs({at::quantize_per_tensor(at::ones({2}), 1, 0, at::kQInt8)}), same), Unsupported);
}

TEST_F(Trace, ALeakedTensorSaysSo) {
  at::Tensor leaked;
  check({at::randn({3})}, [&](const Tensors& x) {
    if (is_tracing()) leaked = x[0] * 2;
    return Tensors{x[0] + 1};
  });
  EXPECT_THROW(leaked + 1, Unsupported);
}

TEST_F(Trace, FactoriesAndConstants) {
  check({at::randn({3})}, [](const Tensors& x) {
    return Tensors{x[0] + at::ones({3}) * at::arange(3) + at::full({}, 2.5) + at::zeros_like(x[0]) + at::eye(3)[1]};
  });
  check({at::randn({3})},
        [](const Tensors& x) { return Tensors{x[0] * torch::tensor({1.f, 2.f, 3.f}) + torch::tensor(4)}; });
  check({at::randn({3})}, [](const Tensors& x) { return Tensors{x[0] * at::scalar_tensor(2.0)}; });
}

TEST_F(Trace, PromotionOfNumbers) {
  for (const auto dtype : {at::kFloat, at::kHalf, at::kLong, at::kInt, at::kBool, at::kDouble})
    check({at::ones({3}).to(dtype), at::ones({}).to(dtype)}, [](const Tensors& x) {
      return Tensors{x[0] * 2,    x[0] * 2.5,
                     x[0] + x[1], x[0] / 3,
                     x[0] > 1,    at::maximum(x[0], x[1]),
                     x[1] * 2.5,  1 - x[0].to(at::kFloat)};
    });
}

TEST_F(Trace, ResultsOfEveryKind) {
  check({at::randn({4, 6})}, [](const Tensors& x) {
    const at::Tensor y = x[0] * 2;
    return Tensors{x[0], x[0].t(), x[0].slice(1, 2, 5), y, y.view({-1}), y, at::Tensor(), y[1], x[0][1]};
  });
  check({at::randn({4, 6})}, [](const Tensors& x) { return (x[0] * 2).chunk(3, 1); });
  check({at::randn({4, 6})}, [](const Tensors& x) { return Tensors{(x[0] + 1).t()}; });
}

TEST_F(Trace, RandomNumbersAreEagers) {
  check({at::randn({40, 6})}, [](const Tensors& x) {
    return Tensors{at::dropout(x[0], 0.5, true) + at::rand_like(x[0]), at::randn({3, 20}),
                   at::bernoulli(at::sigmoid(x[0]))};
  });
  check({at::zeros({40})}, [](const Tensors& x) {
    x[0].normal_(1, 2);
    return Tensors{at::empty({5}).uniform_(0, 3), at::randint(10, {7})};
  });
}

}  // namespace
}  // namespace vesta::trace::test
