// Traces with gradients: what the program sees of autograd, what the graph says of histories, and what it cannot say.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include "trace_interpreter.h"

namespace vesta::trace::test {
namespace {

using Tensors = std::vector<at::Tensor>;

Traced with_gradients(const Tensors& inputs, const TensorProgram& program, bool dynamic = false) {
  return trace(trace_inputs(inputs, dynamic), boxed(program), {.gradients = true});
}

// How many nodes of the program detach a value.
int detached(const Traced& t) {
  int out = 0;
  for (const graph::Node* n = t.graph->first(); n && n != t.joint->first_backward; n = n->next)
    out += n->op == &graph::detach_op();
  return out;
}

at::Tensor leaf(std::vector<int64_t> sizes) { return at::randn(sizes).requires_grad_(); }

std::string reason(const Tensors& inputs, const TensorProgram& program) {
  try {
    with_gradients(inputs, program);
  } catch (const Unsupported& e) {
    return e.what();
  }
  return "";
}

TEST(TraceGradients, WithoutTheOptionTheyAreAskedFor) {
  EXPECT_THROW(trace(trace_inputs({leaf({3})}), boxed([](const Tensors& x) { return Tensors{x[0] * 2}; })),
               NeedsGradients);
}

TEST(TraceGradients, ResultsKnowWhetherTheyRequireOne) {
  with_gradients({leaf({3}), at::ones({3})}, [](const Tensors& x) {
    EXPECT_TRUE(x[0].is_leaf() && x[0].requires_grad());
    EXPECT_FALSE(x[1].requires_grad());
    EXPECT_FALSE((x[1] * 2).requires_grad());
    EXPECT_FALSE(x[0].argmax().requires_grad());
    EXPECT_FALSE(x[0].gt(1).requires_grad());
    EXPECT_FALSE(at::zeros_like(x[0]).requires_grad());
    at::Tensor y = at::zeros({3});
    const at::Tensor view = y.slice(0, 1);
    y[1] = x[0][0];
    EXPECT_TRUE(y.requires_grad() && view.requires_grad());
    return Tensors{y};
  });
}

TEST(TraceGradients, NothingRealIsTouched) {
  const at::Tensor buffer = at::zeros({3}), w = leaf({3});
  const auto version = buffer._version();
  with_gradients({at::ones({3})}, [&](const Tensors& x) {
    buffer.add_(x[0]);
    return Tensors{buffer * w};
  });
  EXPECT_EQ(buffer.sum().item<float>(), 0);
  EXPECT_EQ(buffer._version(), version);
  EXPECT_EQ(reason({at::ones({3})}, [&](const Tensors&) { return Tensors{buffer.add_(w)}; }),
            "a captured tensor begins to require a gradient");
  EXPECT_FALSE(buffer.requires_grad());
}

TEST(TraceGradients, LeavesAreNotWritten) {
  EXPECT_THROW(with_gradients({leaf({3})}, [](const Tensors& x) { return Tensors{x[0].add_(1)}; }), c10::Error);
}

struct Doubled : torch::autograd::Function<Doubled> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x * 2; }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, torch::autograd::variable_list g) {
    return {g[0] * 5};
  }
};

TEST(TraceGradients, CustomFunctionsAreWalkedButHaveNoSecondDerivative) {
  const Traced t = with_gradients({leaf({3})}, [](const Tensors& x) { return Tensors{Doubled::apply(x[0]) + 1}; });
  EXPECT_FALSE(t.joint.value().is_differentiable);
}

TEST(TraceGradients, WhatIsDetachedIsSaid) {
  const auto count = [](const TensorProgram& program) {
    const Traced t = with_gradients({leaf({3}), at::ones({3})}, program);
    EXPECT_TRUE(t.joint.value().is_differentiable);
    return detached(t);
  };
  EXPECT_EQ(count([](const Tensors& x) { return Tensors{x[0] * x[0].detach()}; }), 1);
  EXPECT_GE(count([](const Tensors& x) { return Tensors{x[0] * x[0].variable_data().view({1, 3})}; }), 1);
  EXPECT_EQ(count([](const Tensors& x) {
              const at::Tensor d = x[0].detach();
              return Tensors{d.sin() * d.cos() * x[0]};
            }),
            1);
  EXPECT_EQ(count([](const Tensors& x) {
              at::Tensor y;
              {
                const at::NoGradGuard off;
                y = x[0].exp() * 2;
              }
              return Tensors{y * x[0]};
            }),
            1);
  EXPECT_EQ(count([](const Tensors& x) {
              at::Tensor y = x[0].detach();
              y = y.clone().mul_(x[0]);
              return Tensors{y.view({1, 3}) * 2};
            }),
            1);
}

TEST(TraceGradients, WhereNothingIsDetachedThereIsNoNode) {
  const Traced t = with_gradients({leaf({3}), at::ones({3})}, [](const Tensors& x) {
    at::Tensor y = at::zeros_like(x[0]) + x[1];
    y[1] = x[0][0] * x[0][1].gt(0);
    return Tensors{y * at::dropout(x[0], 0.5, true), x[0].detach(), x[0].argmax()};
  });
  EXPECT_EQ(detached(t), 0);
  EXPECT_TRUE(t.joint->is_differentiable);
}

TEST(TraceGradients, WritesThatAutogradDoesNotSeeHaveNoSecondDerivative) {
  const auto is_differentiable = [](const TensorProgram& program) {
    return with_gradients({leaf({3}), leaf({3})}, program).joint.value().is_differentiable;
  };
  EXPECT_FALSE(is_differentiable([](const Tensors& x) {
    const at::Tensor y = x[0] * 2;
    y.detach().mul_(3);
    return Tensors{y * x[1]};
  }));
  EXPECT_FALSE(is_differentiable([](const Tensors& x) {
    at::Tensor y = x[0] * 2;
    {
      const at::NoGradGuard off;
      y.add_(1);
    }
    return Tensors{y * x[1]};
  }));
  EXPECT_FALSE(is_differentiable([](const Tensors& x) { return Tensors{(x[0] * 2).detach_() * x[1]}; }));
  EXPECT_TRUE(is_differentiable([](const Tensors& x) {
    at::Tensor y = x[0] * 2;
    const at::Tensor d = y.detach();
    y.mul_(x[1]);
    return Tensors{y * d};
  }));
}

TEST(TraceGradients, AFormulaThatFailsNamesItsOperator) {
  int place = 0;
  TraceOptions options{.gradients = true};
  options.place = [&] { return place; };
  const auto program = [&](const Tensors& x) {
    place = 1;
    at::Tensor y = x[0].sin();
    place = 2;
    y = y.cumprod(0);
    place = 3;
    return Tensors{y.cos()};
  };
  try {
    trace(trace_inputs({leaf({3})}), boxed(program), options);
    FAIL();
  } catch (const GradientNotTraced& e) {
    EXPECT_EQ(e.place, 2);
    EXPECT_EQ(std::string(e.what()),
              "the gradient of aten::cumprod cannot be traced: aten::item needs the value of a tensor");
  }
}

TEST(TraceGradients, ResultsInOneMemoryHaveTheHistoryOfTheirBase) {
  const auto hidden = [](const TensorProgram& program) {
    const Traced t = with_gradients({leaf({2, 3}), leaf({3, 4})}, program);
    EXPECT_EQ(t.joint.value().parts.size(), 1u);
    int out = 0;
    for (const graph::Output& o : t.graph->outputs) out += o.hidden;
    return out;
  };
  EXPECT_EQ(hidden([](const Tensors& x) {
              const at::Tensor y = x[0] * 2;
              return Tensors{y.detach(), y.view(-1)};
            }),
            1);
  EXPECT_EQ(hidden([](const Tensors& x) {
              const at::Tensor y = at::_unsafe_view(at::mm(x[0], x[1]), {2, 2, 2});
              return Tensors{y[0], y[1]};
            }),
            1);
}

TEST(TraceGradients, AViewOfTheCallersIsNotWritten) {
  const at::Tensor whole = leaf({2, 3}) * 2;
  EXPECT_EQ(reason({whole[0]}, [](const Tensors& x) { return Tensors{x[0].mul_(2)}; }),
            "a view that the caller made is written, and its gradient is recorded");
}

TEST(TraceGradients, SizesAreExpressions) {
  const Traced t =
      with_gradients({leaf({4, 6})}, [](const Tensors& x) { return Tensors{x[0].reshape_symint({-1, 3})}; }, true);
  EXPECT_EQ(t.graph->symbols.size(), 2);
  EXPECT_TRUE(t.joint);
}

TEST(TraceGradients, ConstantsAreMadeAnew) {
  const Traced t = with_gradients({leaf({2})}, [](const Tensors& x) {
    const at::Tensor c = at::lift_fresh(at::tensor({1.0F, 2.0F}));
    return Tensors{x[0] * c};
  });
  EXPECT_EQ(t.joint.value().first_tangent, 2u);
}

}  // namespace
}  // namespace vesta::trace::test
