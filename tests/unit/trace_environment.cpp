// Threads, autocast, default dtype, inference mode, memory formats.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/check.h"
#include "trace_interpreter.h"

namespace vesta::trace::test {
namespace {

using Tensors = std::vector<at::Tensor>;

TEST(TraceEnvironment, TwoThreadsTraceAtOnce) {
  const auto work = [](int seed) {
    for (int i = 0; i < 20; ++i) {
      const auto t = trace(trace_inputs({at::ones({3, seed + 1})}), boxed([&](const Tensors& x) {
                             at::Tensor y = x[0];
                             for (int k = 0; k < seed + 2; ++k) y = at::relu(y * 2).add_(1);
                             return Tensors{y};
                           }));
      EXPECT_EQ(t.graph->node_count(), static_cast<size_t>(3 * (seed + 2)));
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work, i);
  for (auto& t : threads) t.join();
}

TEST(TraceEnvironment, ATracedTensorOnAnotherThreadIsRefused) {
  EXPECT_THROW(trace(trace_inputs({at::ones({3})}), boxed([](const Tensors& x) {
                       std::exception_ptr error;
                       std::thread([&] {
                         try {
                           (void)(x[0] + 1);
                         } catch (...) {
                           error = std::current_exception();
                         }
                       }).join();
                       if (error) std::rethrow_exception(error);
                       return x;
                     })),
               Unsupported);
}

class Autocast {
 public:
  Autocast() : was_(at::autocast::is_autocast_enabled(at::kCPU)) {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, was_);
  }

 private:
  bool was_;
};

TEST(TraceEnvironment, AutocastCasts) {
  const TensorProgram program = [](const Tensors& x) {
    const Autocast on;
    return Tensors{at::mm(x[0], x[1]), x[0] + x[1]};
  };
  const auto t = check({at::ones({4, 4}), at::ones({4, 4})}, program);
  EXPECT_EQ(t.graph->outputs[0].value->type.dtype, DType::BF16);
  EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
}

TEST(TraceEnvironment, AutocastCacheKeepsNoTracedTensor) {
  const at::Tensor w = at::ones({4, 4}).requires_grad_();
  const at::NoGradGuard no_grad;
  const Autocast on;
  const auto program = [&](const Tensors& x) { return Tensors{at::mm(x[0], w)}; };
  trace(trace_inputs({at::ones({4, 4})}), boxed(program));
  EXPECT_EQ(at::mm(at::ones({4, 4}), w).sum().item<float>(), 64);
}

TEST(TraceEnvironment, DefaultDtype) {
  const auto was = c10::get_default_dtype();
  c10::set_default_dtype(caffe2::TypeMeta::Make<double>());
  check({at::ones({3}, at::kLong)},
        [](const Tensors& x) { return Tensors{x[0] / 2, x[0] * 2.5, at::ones({2}), at::exp(x[0])}; });
  c10::set_default_dtype(was);
}

TEST(TraceEnvironment, InferenceMode) {
  const c10::InferenceMode on;
  check({at::randn({3, 4})}, [](const Tensors& x) {
    at::Tensor y = x[0] * 2;
    y.view({-1}).add_(1);
    return Tensors{y, x[0].t()};
  });
}

class Strides : public testing::TestWithParam<int> {
 protected:
  static at::Tensor input(int layout) {
    at::Tensor x = at::randn({2, 3, 4, 5});
    switch (layout) {
      case 0: return x;
      case 1: return x.contiguous(at::MemoryFormat::ChannelsLast);
      case 2: return at::randn({2, 5, 4, 3}).transpose(1, 3);
      case 3: return at::randn({2, 3, 4, 10}).slice(3, 0, 10, 2);
      case 4: return at::randn({1, 3, 1, 5}).expand({2, 3, 4, 5});
      default: return at::randn({3, 2, 5, 4}).permute({1, 0, 3, 2});
    }
  }
};

TEST_P(Strides, Pointwise) {
  const at::Tensor other = at::randn({3, 1, 1});
  check({input(GetParam())}, [&](const Tensors& x) {
    return Tensors{x[0] + other,
                   x[0] * x[0].transpose(2, 3).contiguous().transpose(2, 3),
                   at::where(x[0] > 0, x[0], other),
                   x[0].to(at::kDouble),
                   at::clamp(x[0], -1, 1),
                   x[0].clone(),
                   at::empty_like(x[0]).fill_(2),
                   at::zeros_like(x[0], {}, at::MemoryFormat::Contiguous),
                   at::gelu(x[0]),
                   at::lerp(x[0], other, 0.5)};
  });
}
TEST_P(Strides, ReductionsAndSoftmax) {
  check({input(GetParam())}, [&](const Tensors& x) {
    return Tensors{x[0].sum(1), x[0].mean({2, 3}, true), x[0].amax(0), at::softmax(x[0], 1), at::log_softmax(x[0], -1),
                   x[0].sum(),  x[0].argmax(1),          x[0].any(2),  at::cumsum(x[0], 1),  std::get<0>(x[0].max(1)),
                   x[0].var(1), at::logsumexp(x[0], {1})};
  });
}
TEST_P(Strides, ViewsAndJoins) {
  check({input(GetParam())}, [&](const Tensors& x) {
    return Tensors{x[0].permute({2, 0, 1, 3}) * 1,
                   x[0].reshape({6, 20}) * 1,
                   x[0].flatten(1) + 0,
                   at::cat({x[0], x[0]}, 1),
                   at::stack({x[0], x[0]}, 0),
                   x[0].unsqueeze(0) * 1,
                   x[0].select(1, 0) * 1,
                   x[0].expand({2, 3, 4, 5}) * 1,
                   at::flip(x[0], {1}),
                   x[0].repeat({1, 2, 1, 1}),
                   at::constant_pad_nd(x[0], {1, 1}),
                   x[0].movedim(1, 3) * 1,
                   x[0].contiguous(),
                   at::roll(x[0], 1, 1),
                   x[0].tril()};
  });
}
TEST_P(Strides, ConvolutionAndPooling) {
  check({input(GetParam()), at::randn({6, 3, 3, 3}), at::randn({6})}, [&](const Tensors& x) {
    return Tensors{at::conv2d(x[0], x[1], x[2], 1, 1), at::max_pool2d(x[0], 2), at::avg_pool2d(x[0], 2),
                   at::adaptive_avg_pool2d(x[0], {1, 1})};
  });
}
INSTANTIATE_TEST_SUITE_P(Layouts, Strides, testing::Range(0, 6));

TEST(TraceOps, ManyOperatorsKeepEagersTypes) {
  check({at::randn({4, 6}), at::randn({6, 5}), at::tensor({1, 3, 0}, at::kLong)}, [](const Tensors& x) {
    return Tensors{at::mm(x[0], x[1]),
                   at::addmm(x[0].mm(x[1]), x[0], x[1]),
                   at::embedding(x[0], x[2]),
                   at::index_select(x[0], 0, x[2]),
                   x[0].index({x[2]}),
                   at::gather(x[0], 1, x[2].view({3, 1})),
                   std::get<0>(at::topk(x[0], 2)),
                   std::get<1>(at::sort(x[0])),
                   at::argsort(x[0]),
                   at::cdist(x[0], x[0]),
                   at::einsum("ij,jk->ik", {x[0], x[1]}),
                   at::outer(x[1][0], x[1][1]),
                   at::linalg_vector_norm(x[0]),
                   at::bmm(x[0].unsqueeze(0), x[1].unsqueeze(0)),
                   at::cross_entropy_loss(x[0], at::tensor({1, 2, 3, 0}, at::kLong)),
                   at::mse_loss(x[0], x[0] * 2),
                   at::tril(x[0]),
                   at::linspace(0, 1, 5),
                   at::bucketize(x[0], at::arange(3).to(at::kFloat)),
                   at::isnan(x[0]),
                   at::std(x[0], 1),
                   std::get<0>(at::linalg_inv_ex(x[0].slice(1, 0, 4))),
                   at::trace(x[0]),
                   at::kron(x[0], x[1]),
                   at::diag(x[0]),
                   at::tensordot(x[0], x[1], {1}, {0}),
                   at::logcumsumexp(x[0], 1),
                   at::glu(x[0]),
                   at::elu(x[0])};
  });
  check({at::randn({3, 4}, at::kComplexFloat)}, [](const Tensors& x) {
    return Tensors{x[0] * 2,        at::real(x[0]) * 1,     at::view_as_real(x[0]) + 1, (x[0].conj() * x[0]).abs(),
                   at::angle(x[0]), at::conj_physical(x[0])};
  });
}

}  // namespace
}  // namespace vesta::trace::test
