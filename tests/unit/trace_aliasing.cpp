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

at::Tensor complex(at::IntArrayRef sizes) { return at::randn(sizes, at::kComplexFloat); }

TEST(TraceAliasing, LazyConjugates) {
  check({complex({3})},
        [](const Tensors& x) { return Tensors{x[0].conj() * 2, at::mm(x[0].view({1, 3}), x[0].conj().view({3, 1}))}; });
  check({complex({4, 6})}, [](const Tensors& x) {
    const at::Tensor made = x[0] * 2, columns = x[0].slice(1, 0, 6, 2);
    return Tensors{x[0].conj(),
                   x[0].mT().conj().slice(0, 1, 3),
                   made.conj(),
                   made.select(0, 1).conj(),
                   made,
                   x[0].conj().conj(),
                   columns.conj() * 2,
                   columns.conj().clone(),
                   columns.conj().contiguous()};
  });
  check({complex({4, 6})}, [](const Tensors& x) {
    const at::Tensor made = x[0] + 1;
    return Tensors{at::real(made.conj()),     at::imag(made.conj()),           at::imag(x[0].conj()),
                   at::imag(made.conj()) + 1, made.mT().conj().resolve_conj(), at::imag(made.conj()).resolve_neg()};
  });
}

TEST(TraceAliasing, ARealNumberIsItsConjugate) {
  check({at::randn({3}), complex({3})}, [](const Tensors& x) {
    const at::Tensor y = x[0] * 2, same = at::conj_physical(y);
    y.add_(1);
    return Tensors{at::conj_physical(x[0]), at::conj_physical(x[1]), same, y};
  });
}

TEST(TraceAliasing, ProductsOfConjugates) {
  check({complex({5}), complex({5})}, [](const Tensors& x) {
    const at::Tensor a = x[0].conj(), b = x[1].conj();
    return Tensors{at::dot(a, b),     at::dot(a, x[1]),  at::dot(x[0], b),    at::vdot(a, b),
                   at::vdot(a, x[1]), at::vdot(x[0], b), at::vdot(x[0], x[1])};
  });
}

TEST(TraceAliasing, SolutionsThatAreConjugated) {
  check({complex({3, 3}), complex({4, 3})}, [](const Tensors& x) {
    const auto [factors, pivots] = at::linalg_lu_factor(x[0]);
    const at::Tensor y = at::linalg_lu_solve(factors, pivots, x[1], /*left=*/false);
    return Tensors{y, y * 2, at::linalg_lu_solve(factors, pivots, x[1].mT())};
  });
}

TEST(TraceAliasing, WhatIsPendingSurvivesWrites) {
  check({complex({4, 6})}, [](const Tensors& x) {
    const at::Tensor conjugate = x[0].conj(), part = conjugate.slice(1, 0, 6, 2).select(0, 1);
    x[0].add_(1);
    const at::Tensor between = conjugate * 2;
    part.mul_(at::complex(at::ones({}), at::ones({})));
    at::imag(conjugate).add_(3);
    return Tensors{between, conjugate, part, part.slice(0, 1, 3), part + 0};
  });
  check({complex({3})}, [](const Tensors& x) {
    const at::Tensor y = x[0] * 2, c = y.conj();
    c.copy_(x[0]);
    y.add_(c);
    return Tensors{y, c * 1};
  });
}

TEST(TraceAliasing, PendingOnInputs) {
  const auto program = [](const Tensors& x) {
    return Tensors{x[0] * 2, x[0], x[0].conj(), x[0].select(0, 1), at::imag(x[0]), at::mm(x[0], x[1].mT()), x[1].neg()};
  };
  const Traced traced = check({complex({3, 4}).conj(), complex({3, 4})}, program);
  EXPECT_EQ(traced.conj_neg.size(), 1u);
  EXPECT_EQ(traced.conj_neg.at(0), std::make_pair(0, ConjNegBits{.conj = true}));
  check({at::imag(complex({3, 4}).conj())}, [](const Tensors& x) {
    EXPECT_TRUE(x[0].is_neg());
    return Tensors{x[0] + 1, x[0].resolve_neg(), x[0].mT(), x[0].view({2, 6}).neg()};
  });
  check({complex({3, 4}).conj()}, [](const Tensors& x) {
    x[0].mul_(2);
    x[0].select(0, 1).zero_();
    return Tensors{x[0] + 1};
  });
  // Captured: its memory is what the graph reads too.
  const at::Tensor captured = complex({3, 4}).conj();
  check({complex({3, 4})}, [&](const Tensors& x) { return Tensors{x[0] * captured, captured.mT()}; });
  // Eager refuses it.
  EXPECT_ANY_THROW(trace(trace_inputs({complex({3}).conj()}),
                         boxed([](const Tensors& x) { return Tensors{at::view_as_real(x[0])}; })));
}

TEST(TraceAliasing, StorageOffsetsOfInputs) {
  const at::Tensor base = at::randn({12});
  const at::Tensor x = base.slice(0, 2, 10);
  check({x}, [](const Tensors& t) { return Tensors{t[0].slice(0, 1, 5), t[0].view({2, 4}).t()}; });
}

}  // namespace
}  // namespace vesta::trace::test
