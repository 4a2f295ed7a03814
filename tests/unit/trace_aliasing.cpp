// Swaps, copies and results that must stay apart.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "trace_interpreter.h"

namespace vesta::trace::test {
namespace {

using Tensors = std::vector<at::Tensor>;

TEST(TraceAliasing, SwappedInputs) {
  check({at::randn({3}), at::randn({3})}, [](const Tensors& x) {
    const at::Tensor old = x[0].clone();
    x[0].copy_(x[1]);
    x[1].copy_(old);
    return Tensors{};
  });
}

TEST(TraceAliasing, ACopyOfAnInputIsNotTheInput) {
  check({at::randn({3})}, [](const Tensors& x) {
    const at::Tensor a = at::empty({3}), b = at::empty({3});
    a.copy_(x[0]);
    b.copy_(a);
    return Tensors{a, b, x[0].clone()};
  });
}

TEST(TraceAliasing, ResultsOfAMutatedInput) {
  check({at::randn({4, 6})}, [](const Tensors& x) {
    const at::Tensor before = x[0] * 1, view = x[0].slice(0, 1, 3);
    view.add_(1);
    return Tensors{view, x[0], before, x[0].t(), x[0].view({-1})};
  });
}

TEST(TraceAliasing, TensorDataIsNotCopied) {
  check({at::randn({4})}, [](const Tensors& x) {
    const at::Tensor y = (x[0] * 2).detach();
    const at::Tensor z = y.detach();
    z.add_(1);
    return Tensors{y, z};
  });
}

TEST(TraceAliasing, ConstantsFilledThroughAPointer) {
  check({at::randn({4})}, [](const Tensors& x) {
    const at::Tensor small = at::empty({3}), large = at::empty({100}, at::kLong), unused = at::empty({1});
    small.mutable_data_ptr<float>()[1] = 2;
    small.mutable_data_ptr<float>()[0] = small.mutable_data_ptr<float>()[2] = 1;
    for (int i = 0; i < 100; ++i) large.mutable_data_ptr<int64_t>()[i] = i;
    const at::Tensor view = large.view({10, 10});
    return Tensors{small * 2, view.sum(0), large + 1, x[0] + small.sum()};
  });
  // Writes that are recorded and writes through a pointer do not mix.
  EXPECT_ANY_THROW(trace(trace_inputs({at::randn({4})}), boxed([](const Tensors& x) {
                           const at::Tensor y = at::empty({4});
                           y.zero_();
                           y.mutable_data_ptr<float>()[0] = 1;
                           return Tensors{x[0] + y};
                         })));
}

TEST(TraceAliasing, LazyConjugates) {
  check({at::randn({3}, at::kComplexFloat)},
        [](const Tensors& x) { return Tensors{x[0].conj() * 2, at::mm(x[0].view({1, 3}), x[0].conj().view({3, 1}))}; });
  EXPECT_THROW(trace(trace_inputs({at::randn({3}, at::kComplexFloat)}),
                     boxed([](const Tensors& x) { return Tensors{x[0].conj()}; })),
               Unsupported);
  EXPECT_THROW(trace(trace_inputs({at::randn({3}, at::kComplexFloat)}), boxed([](const Tensors& x) {
                       const at::Tensor c = x[0].conj();
                       x[0].add_(1);
                       return Tensors{c * 2};
                     })),
               Unsupported);
}

TEST(TraceAliasing, StorageOffsetsOfInputs) {
  const at::Tensor base = at::randn({12});
  const at::Tensor x = base.slice(0, 2, 10);
  check({x}, [](const Tensors& t) { return Tensors{t[0].slice(0, 1, 5), t[0].view({2, 4}).t()}; });
}

}  // namespace
}  // namespace vesta::trace::test
