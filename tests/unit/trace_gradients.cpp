// Traces with gradients: what is on the tape, what the program sees of autograd, and what no tape can say.
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

// The operators, with "!" behind those that ran without gradient mode.
std::vector<std::string> calls(const Traced& t) {
  std::vector<std::string> out;
  for (const TapeCall& c : t.tape->calls) {
    const auto& n = c.op.operator_name();
    out.push_back(n.name + (n.overload_name.empty() ? "" : "." + n.overload_name) + (c.grad_mode ? "" : "!"));
  }
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

using Names = std::vector<std::string>;

TEST(TraceGradients, WithoutTheOptionTheyAreAskedFor) {
  EXPECT_THROW(trace(trace_inputs({leaf({3})}), boxed([](const Tensors& x) { return Tensors{x[0] * 2}; })),
               NeedsGradients);
}

TEST(TraceGradients, OperatorsAreWholeAndInOrder) {
  const at::Tensor w = leaf({4, 3});
  const Traced t = with_gradients({leaf({2, 3})}, [&](const Tensors& x) {
    at::Tensor y = at::linear(x[0], w);
    EXPECT_TRUE(y.requires_grad());
    EXPECT_FALSE(y.is_leaf());
    y[0].mul_(2);
    const at::NoGradGuard off;
    return Tensors{y, at::dropout(y.detach(), 0.5, true)};
  });
  EXPECT_EQ(calls(t),
            (Names{"aten::linear", "aten::select.int", "aten::mul_.Scalar", "aten::detach!", "aten::dropout!"}));
  EXPECT_EQ(t.tape->inputs.size(), 2);
  EXPECT_TRUE(t.inputs.at(1).is_same(w));
  EXPECT_EQ(t.tape->outputs_require_grad, (std::vector<bool>{true, false}));
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

TEST(TraceGradients, CustomFunctionsAreWalkedButNotOnATape) {
  const Traced t = with_gradients({leaf({3})}, [](const Tensors& x) { return Tensors{Doubled::apply(x[0]) + 1}; });
  EXPECT_TRUE(t.joint && !t.tape);
  const Traced cut =
      with_gradients({leaf({3})}, [](const Tensors& x) { return Tensors{Doubled::apply(x[0]).detach() + x[0]}; });
  EXPECT_TRUE(cut.joint && cut.tape);
}

TEST(TraceGradients, SizesAreExpressions) {
  const Traced t =
      with_gradients({leaf({4, 6})}, [](const Tensors& x) { return Tensors{x[0].reshape_symint({-1, 3})}; }, true);
  EXPECT_EQ(t.tape->symbols.size(), 2);
  EXPECT_EQ(t.tape->input_sizes.at(0).size(), 2);
  EXPECT_EQ(calls(t), Names{"aten::reshape"});
}

TEST(TraceGradients, ConstantsAreMadeAnew) {
  const Traced t = with_gradients({leaf({2})}, [](const Tensors& x) {
    const at::Tensor c = at::lift_fresh(at::tensor({1.0F, 2.0F}));
    return Tensors{x[0] * c};
  });
  EXPECT_EQ(t.tape->inputs.size(), 2);
}

}  // namespace
}  // namespace vesta::trace::test
