// Operators with a handler of their own, and arguments that eager refuses whatever the tensors are.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trace_interpreter.h"
#include "vesta/error.h"

namespace vesta::trace::test {
namespace {

using Tensors = std::vector<at::Tensor>;

void refused(const Tensors& inputs, const TensorProgram& program) {
  EXPECT_THROW(trace(trace_inputs(inputs), boxed(program)), UserError);
}

TEST(TraceSpecial, MaxPool1dOfAnyStrides) {
  check({at::randn({2, 3, 9})}, [](const Tensors& x) { return Tensors{at::max_pool1d(x[0], {2})}; });
  check({at::randn({2, 9, 3}).transpose(1, 2)},
        [](const Tensors& x) { return Tensors{at::max_pool1d(x[0], {3}, {2}, {1})}; });
}

TEST(TraceSpecial, RollOfChannelsLast) {
  const at::Tensor x = at::randn({3, 4, 5, 2}).contiguous(at::MemoryFormat::ChannelsLast);
  check({x}, [](const Tensors& t) {
    return Tensors{at::roll(t[0], 1, 1), at::roll(t[0], 3, 0), at::roll(t[0], {3, -2}, {0, 1}),
                   at::roll(t[0], {1, 2}, {0, 2})};
  });
}

TEST(TraceSpecial, ResizeAs) {
  check({at::randn({2, 3})}, [](const Tensors& x) {
    at::Tensor y = at::empty({0});
    y.resize_as_(x[0]);
    y.copy_(x[0]);
    return Tensors{y, at::resize_as(x[0], x[0])};
  });
}

TEST(TraceSpecial, DistanceOfComplexNumbersIsReal) {
  check({at::randn({3}, at::kComplexFloat), at::randn({3}, at::kComplexFloat)},
        [](const Tensors& x) { return Tensors{at::l1_loss(x[0], x[1])}; });
}

TEST(TraceSpecial, ArgumentsEagerRefuses) {
  const Tensors plane{at::randn({1, 4, 4})};
  refused(plane, [](const Tensors& x) { return Tensors{at::gelu(x[0], "neither")}; });
  refused(plane, [](const Tensors& x) { return Tensors{at::softshrink(x[0], -0.5)}; });
  refused(plane, [](const Tensors& x) { return Tensors{at::huber_loss(x[0], x[0], at::Reduction::Mean, 0)}; });
  refused(plane, [](const Tensors& x) {
    return Tensors{at::avg_pool2d(x[0], {2, 2}, {}, 0, false, true, /*divisor_override=*/0)};
  });
  refused({at::randn({})}, [](const Tensors& x) { return Tensors{at::roll(x[0], 0, 0)}; });
}

}  // namespace
}  // namespace vesta::trace::test
