#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "trace_interpreter.h"

namespace vesta::trace::test {
namespace {

using Tensors = std::vector<at::Tensor>;
using at::indexing::Slice;

void refused(const Tensors& inputs, const TensorProgram& program) {
  EXPECT_THROW(trace(trace_inputs(inputs), boxed(program)), Unsupported);
}

TEST(TraceMutation, InputsAreWrittenBack) {
  const auto t = check({at::randn({3, 4}), at::randn({4})}, [](const Tensors& x) {
    x[0].mul_(x[1]).add_(1);
    return Tensors{x[0] * 2};
  });
  ASSERT_EQ(t.graph->mutations.size(), 1u);
  EXPECT_EQ(t.graph->mutations[0].input, 0);
  check({at::randn({3})}, [](const Tensors& x) { return Tensors{x[0].relu_()}; });
  check({at::randn({3})}, [](const Tensors& x) { return Tensors{x[0].zero_(), x[0].fill_(3)}; });
}

TEST(TraceMutation, ThroughViewsOfInputs) {
  check({at::randn({4, 6})}, [](const Tensors& x) {
    x[0].select(0, 1).add_(1);
    x[0].slice(1, 0, 6, 2).mul_(2);
    x[0].t()[2].zero_();
    x[0].view({-1}).slice(0, 20, 24).fill_(7);
    return Tensors{x[0].sum()};
  });
}

TEST(TraceMutation, ViewsSeeWrites) {
  check({at::randn({4, 6})}, [](const Tensors& x) {
    const at::Tensor y = x[0] * 2;
    const at::Tensor flat = y.view({-1}), row = y[1], turned = y.t();
    const at::Tensor before = row + 0;
    row.add_(10);
    flat[0].fill_(-1);
    turned.mul_(2);
    y.add_(1);
    return Tensors{flat + 0, row + 0, turned + 0, y + 0, before};
  });
}

TEST(TraceMutation, SplitPiecesAreViews) {
  check({at::randn({4, 6})}, [](const Tensors& x) {
    const at::Tensor y = x[0] + 1;
    const auto parts = y.chunk(3, 1);
    parts[1].zero_();
    const auto rows = y.unbind(0);
    rows[2].add_(5);
    const auto sized = y.split_with_sizes({1, 3}, 0);
    sized[1].mul_(3);
    return Tensors{y, parts[0] + parts[1]};
  });
}

TEST(TraceMutation, IndexingAssignment) {
  check({at::randn({4, 6}), at::tensor({2, 0})}, [](const Tensors& x) {
    at::Tensor y = x[0].clone();
    y.index_put_({1, Slice(1, 3)}, 5);
    y.index_put_({x[1]}, at::ones({2, 6}));
    y.masked_fill_(y > 1, 0);
    y.scatter_(1, x[1].view({2, 1}), 4.0);
    y.index_add_(0, x[1], at::ones({2, 6}));
    return Tensors{y};
  });
}

TEST(TraceMutation, CopyCastsAndBroadcasts) {
  check({at::randn({4, 6}), at::randn({6}).to(at::kDouble), at::ones({4, 6}, at::kInt)}, [](const Tensors& x) {
    const at::Tensor y = at::empty({4, 6});
    y.copy_(x[1]);
    x[2].copy_(x[0] * 3);
    x[0].t().copy_(y.t() * 2);
    return Tensors{y};
  });
}

TEST(TraceMutation, DtypeStaysThatOfTheTensor) {
  check({at::ones({3}, at::kHalf), at::ones({3}, at::kLong), at::randn({3})}, [](const Tensors& x) {
    x[0].add_(x[2]);
    x[1].mul_(3);
    return Tensors{x[0], x[1]};
  });
  // Eager refuses: the entry point asks it and passes its error on.
  EXPECT_ANY_THROW(
      trace(trace_inputs({at::ones({3}, at::kLong)}), boxed([](const Tensors& x) { return Tensors{x[0].add_(0.5)}; })));
  EXPECT_ANY_THROW(trace(trace_inputs({at::ones({3}), at::ones({2, 3})}),
                         boxed([](const Tensors& x) { return Tensors{x[0].add_(x[1])}; })));
}

TEST(TraceMutation, StridesOfTheTensorStay) {
  check({at::randn({4, 6}).t(), at::randn({6, 4})}, [](const Tensors& x) {
    const at::Tensor y = x[0] + 0;
    y.add_(x[1]);
    return Tensors{y, x[0].add_(x[1]), y * 2};
  });
}

TEST(TraceMutation, OutVariants) {
  check({at::randn({3}), at::randn({3}), at::zeros({3})}, [](const Tensors& x) {
    at::add_out(const_cast<at::Tensor&>(x[2]), x[0], x[1]);
    at::Tensor empty = at::empty({0});
    at::mul_out(empty, x[0], x[1]);
    return Tensors{x[2], empty};
  });
  refused({at::randn({3}), at::zeros({5})}, [](const Tensors& x) {
    at::mul_out(const_cast<at::Tensor&>(x[1]), x[0], x[0]);
    return Tensors{x[1]};
  });
}

TEST(TraceMutation, MetadataInPlace) {
  check({at::randn({3, 1, 4})}, [](const Tensors& x) {
    at::Tensor y = x[0] * 2;
    const at::Tensor before = y.view({-1});
    y.squeeze_(1).t_().unsqueeze_(0);
    y.add_(1);
    return Tensors{y, before + 0};
  });
  refused({at::randn({3, 1})}, [](const Tensors& x) { return Tensors{x[0].squeeze_()}; });
  refused({at::randn({3, 1})}, [](const Tensors& x) { return Tensors{x[0].resize_({5})}; });
  refused({at::randn({3}), at::randn({3})}, [](const Tensors& x) { return Tensors{x[0].set_(x[1])}; });
}

TEST(TraceMutation, OneTensorGivenTwice) {
  const at::Tensor a = at::randn({3});
  const auto t = check({a, a}, [](const Tensors& x) {
    x[0].add_(1);
    return Tensors{x[1] * 2, x[1]};
  });
  ASSERT_EQ(t.same_inputs.size(), 1u);
  EXPECT_EQ(t.same_inputs[0], (std::vector<int>{0, 1}));
}

TEST(TraceMutation, OverlappingMemory) {
  const at::Tensor a = at::randn({6});
  const Tensors overlapping{a, a.slice(0, 2, 5)};
  check(overlapping, [](const Tensors& x) { return Tensors{x[0].sum() + x[1].sum()}; });
  refused(overlapping, [](const Tensors& x) { return Tensors{x[0].add_(1) * x[1].sum()}; });
  refused({at::randn({1, 3}).expand({4, 3})}, [](const Tensors& x) { return Tensors{x[0].add_(1)}; });
  // Halves of one storage do not touch.
  EXPECT_NO_THROW(trace(trace_inputs({a.slice(0, 0, 3), a.slice(0, 3, 6)}),
                        boxed([](const Tensors& x) { return Tensors{x[0].add_(x[1])}; })));
}

// A result that is a view holds its storage's memory if it is dense; a later result is then a view of it.
TEST(TraceMutation, ResultsThatShareMemory) {
  const auto t = check({at::randn({4, 6})}, [](const Tensors& x) {
    const at::Tensor y = x[0] * 2;
    return Tensors{y.t(), y, y.view({2, 12}).select(1, 3)};
  });
  // The base is the tensor that the memory was made for, although another tensor shows all of it, too.
  EXPECT_EQ(t.graph->outputs[0].kind, graph::OutputKind::OutputView);
  EXPECT_EQ(t.graph->outputs[1].kind, graph::OutputKind::Fresh);
  EXPECT_EQ(t.graph->outputs[2].kind, graph::OutputKind::OutputView);
  const auto later = check({at::randn({4, 6})}, [](const Tensors& x) {
    const at::Tensor y = x[0] * 2;
    return Tensors{y.slice(0, 4), y.slice(1, 0, 3), y};
  });
  EXPECT_EQ(later.graph->outputs[2].kind, graph::OutputKind::Fresh);
  EXPECT_EQ(later.graph->outputs[0].alias, 2);
  // None shows all: the storage itself is a hidden result.
  const auto parts = check({at::randn({4, 6})}, [](const Tensors& x) {
    const at::Tensor y = x[0] * 2;
    return Tensors{y.slice(1, 0, 4), y.slice(1, 3, 6), x[0] + 1};
  });
  ASSERT_EQ(parts.graph->outputs.size(), 4u);
  EXPECT_TRUE(parts.graph->outputs[3].hidden);
}

TEST(TraceMutation, CapturedTensorsAreWrittenToo) {
  at::Tensor counter = at::zeros({2});
  const auto t = trace(trace_inputs({at::randn({2})}), boxed([&](const Tensors& x) {
                         counter.add_(x[0]);
                         return Tensors{counter * 2, counter};
                       }));
  EXPECT_EQ(counter.sum().item<float>(), 0);
  ASSERT_EQ(t.graph->mutations.size(), 1u);
  EXPECT_EQ(t.graph->mutations[0].input, 1);
  EXPECT_EQ(t.graph->outputs[1].kind, graph::OutputKind::Input);
  EXPECT_TRUE(t.lifted.at(0).is_same(counter));
}

TEST(TraceMutation, ResultsThatOverlap) {
  check({at::randn({4, 6})}, [](const Tensors& x) {
    const at::Tensor y = x[0] + 1;
    return Tensors{y, y[1], y.t(), y};
  });
  check({at::randn({4, 6})}, [](const Tensors& x) {
    const at::Tensor y = x[0] + 1;
    return Tensors{x[0].view({6, 4}), x[0].detach(), x[0].slice(0, 1, 3)};
  });
  check({at::randn({4, 6})}, [](const Tensors& x) {
    const at::Tensor y = x[0] + 1;
    return Tensors{y[1], y.slice(0, 9), y, y.slice(1, 2, 4)};
  });
}

// Views as another type are views of the same memory.
TEST(TraceMutation, ResultsOfAnotherType) {
  check({at::randn({4, 6})}, [](const Tensors& x) {
    const at::Tensor y = x[0] + 1;
    return Tensors{y.view(at::kInt)[1], y, x[0][2].view(at::kDouble)};
  });
  check({at::randn({4, 6, 2})}, [](const Tensors& x) {
    const at::Tensor z = at::view_as_complex(x[0].slice(0, 1)) * 2;
    return Tensors{at::view_as_real(z).select(2, 1), at::view_as_complex(x[0])[1], z.t()};
  });
}

TEST(TraceMutation, BatchNormInTraining) {
  const Tensors inputs{at::randn({4, 3, 5}), at::ones({3}), at::zeros({3}), at::zeros({3}), at::ones({3})};
  check(inputs,
        [](const Tensors& x) { return Tensors{at::batch_norm(x[0], x[1], x[2], x[3], x[4], true, 0.1, 1e-5, false)}; });
}

TEST(TraceMutation, AsStrided) {
  check({at::randn({4, 6})}, [](const Tensors& x) {
    const at::Tensor y = x[0] + 1;
    return Tensors{y.as_strided({2, 3}, {12, 2}, 1) * 2, x[0].as_strided({5}, {2}) + 1};
  });
}

TEST(TraceMutation, ForeachDecomposes) {
  check({at::randn({3}), at::randn({4})}, [](const Tensors& x) {
    at::_foreach_add_(x, 1.5);
    at::_foreach_mul_(x, x);
    return Tensors{at::_foreach_sqrt(at::_foreach_abs(x))};
  });
}

}  // namespace
}  // namespace vesta::trace::test
