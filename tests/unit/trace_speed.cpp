// Measures the cost of tracing an operator. The bound is loose, for machines under load; the figure itself is printed.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "trace_interpreter.h"

namespace vesta::trace::test {
namespace {

using Tensors = std::vector<at::Tensor>;

// A decoder of `layers` layers, about 32 operators each.
Tensors decoder(const Tensors& x, const Tensors& weights, int layers) {
  at::Tensor h = x[0];
  const auto norm = [](const at::Tensor& y, const at::Tensor& w) {
    return y * at::rsqrt(y.pow(2).mean(-1, true) + 1e-6) * w;
  };
  for (int i = 0; i < layers; ++i) {
    const at::Tensor y = norm(h, weights[0]);
    const auto heads = [&](const at::Tensor& w) { return at::linear(y, w).view({1, 16, 4, 16}).transpose(1, 2); };
    const at::Tensor q = heads(weights[1]), k = heads(weights[1]), v = heads(weights[1]);
    const at::Tensor p = at::softmax(at::matmul(q, k.transpose(2, 3)) * 0.25, -1);
    h = h + at::linear(at::matmul(p, v).transpose(1, 2).reshape({1, 16, 64}), weights[1]);
    const at::Tensor z = norm(h, weights[0]);
    h = h + at::linear(at::silu(at::linear(z, weights[1])) * at::linear(z, weights[1]), weights[1]);
  }
  return {h};
}

double microseconds_per_op(const std::vector<TraceInput>& inputs, const TensorProgram& program, int64_t& ops) {
  double best = 1e9;
  for (int i = 0; i < 8; ++i) {
    const auto start = std::chrono::steady_clock::now();
    ops = trace(inputs, boxed(program)).op_count;
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / static_cast<double>(ops));
  }
  return best;
}

TEST(TraceSpeed, Decoder) {
  const Tensors weights{at::ones({64}), at::randn({64, 64})};
  const TensorProgram program = [&](const Tensors& x) { return decoder(x, weights, 36); };
  int64_t ops = 0;
  const double fixed = microseconds_per_op(trace_inputs({at::randn({1, 16, 64})}), program, ops);
  std::vector<TraceInput> inputs = trace_inputs({at::randn({1, 16, 64})});
  std::cout << ops << " operators, " << fixed << " us each";
  RecordProperty("microseconds_per_op", std::to_string(fixed));
  const TensorProgram pointwise = [](const Tensors& x) {
    at::Tensor y = x[0];
    for (int i = 0; i < 500; ++i) y = at::relu(y * x[1]) + 1;
    return Tensors{y};
  };
  const double chain = microseconds_per_op(trace_inputs({at::randn({4, 8}), at::randn({8})}), pointwise, ops);
  const double symbolic = microseconds_per_op(trace_inputs({at::randn({4, 8}), at::randn({8})}, true), pointwise, ops);
  std::cout << "; pointwise chain " << chain << " us, symbolic " << symbolic << " us\n";
  EXPECT_LT(fixed, 100);
}

}  // namespace
}  // namespace vesta::trace::test
