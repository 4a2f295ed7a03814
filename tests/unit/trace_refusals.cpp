// Programs that a trace must leave to eager although it could run them, and properties that ATen's schemas do not show.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "trace_interpreter.h"
#include "vesta/error.h"

namespace vesta::trace::test {
namespace {

using Tensors = std::vector<at::Tensor>;

void refused(const Tensors& inputs, const TensorProgram& program) {
  EXPECT_THROW(trace(trace_inputs(inputs), boxed(program)), Unsupported);
}

// A program may keep a traced tensor, or a symbolic size, whether its trace succeeds or not.
TEST(TraceRefusals, AfterATraceNothingHoldsItsInputs) {
  const at::Tensor x = at::randn({3, 4});
  for (const bool fails : {false, true}) {
    for (const bool gradients : {false, true}) {
      at::Tensor kept;
      c10::SymInt size;
      const auto program = boxed([&](const Tensors& t) {
        kept = t[0].slice(1, 1);
        size = kept.sym_size(0);
        if (fails) throw std::runtime_error("no");
        return Tensors{kept.exp()};
      });
      TraceOptions options;
      options.gradients = gradients;
      std::vector<TraceInput> inputs = trace_inputs({x});
      inputs[0].dynamic = {true, false};
      try {
        trace(inputs, program, options);
      } catch (const std::runtime_error&) {
      }
      inputs.clear();
      EXPECT_EQ(x.use_count(), 1) << fails << gradients;
      EXPECT_THROW(kept.add(1), Unsupported);
    }
  }
}

TEST(TraceRefusals, WritesThatOverlapWhatTheyRead) {
  refused({at::randn({6})}, [](const Tensors& x) {
    const at::Tensor y = x[0].clone();
    return Tensors{y.slice(0, 1).add_(y.slice(0, 0, 5))};
  });
  refused({at::randn({6})}, [](const Tensors& x) {
    const at::Tensor y = x[0].clone();
    return Tensors{y.slice(0, 1).copy_(y.slice(0, 0, 5))};
  });
  refused({at::randn({4, 6})}, [](const Tensors& x) {
    at::Tensor y = x[0].clone();
    return Tensors{at::cat_out(y, {y.slice(0, 0, 0), y})};
  });
  // Neighbours, the same elements, and tensors with gaps are allowed.
  check({at::randn({6, 4})}, [](const Tensors& x) {
    const at::Tensor y = x[0].clone();
    y.slice(0, 3).add_(y.slice(0, 0, 3));
    y.mul_(y);
    y.slice(1, 2).sub_(y.slice(1, 0, 2));
    return Tensors{y};
  });
}

TEST(TraceRefusals, OutTensorsOfAnotherDtype) {
  refused({at::randn({3, 4}), at::zeros({4}, at::kDouble)}, [](const Tensors& x) {
    at::Tensor out = x[1];
    return Tensors{at::sum_out(out, x[0], {0})};
  });
  check({at::randn({4}), at::zeros({4}, at::kDouble)}, [](const Tensors& x) {
    at::Tensor out = x[1];
    return Tensors{at::mul_out(out, x[0], x[0])};
  });
  refused({at::randn({4}, at::kComplexFloat)}, [](const Tensors& x) { return Tensors{x[0].abs_()}; });
}

TEST(TraceRefusals, ProgramsThatSeedTheGenerator) {
  refused({at::randn({3})}, [](const Tensors& x) {
    at::manual_seed(7);
    return Tensors{x[0] + at::rand({3})};
  });
  refused({at::randn({3})}, [](const Tensors& x) {
    at::manual_seed(8);
    return Tensors{x[0] + 1};
  });
  check({at::randn({3})}, [](const Tensors& x) { return Tensors{x[0] + at::rand({3})}; });
}

TEST(TraceRefusals, NotForWhatAnotherThreadDraws) {
  for (const int64_t count : {1, 2, 623, 624, 625, 20000}) {
    SCOPED_TRACE(count);
    int times = 0;
    const auto program = [&](const Tensors& x) {
      if (times++ < 3) std::thread([&] { at::rand({count}); }).join();
      return Tensors{x[0] + 1};
    };
    EXPECT_NO_THROW(trace(trace_inputs({at::randn({3})}), boxed(program)));
    EXPECT_EQ(times, 4);
  }
}

TEST(TraceRefusals, ProgramsThatDrawWithoutTheDispatcher) {
  at::manual_seed(3);
  const at::Tensor expected = at::rand({2});
  at::manual_seed(3);
  refused({at::randn({0})}, [](const Tensors& x) {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard lock(generator.mutex());
    return Tensors{x[0] + static_cast<int64_t>(at::check_generator<at::CPUGeneratorImpl>(generator)->random() % 7)};
  });
  EXPECT_TRUE(at::equal(at::rand({2}), expected));
}

// Refused, the program runs again: from the state that it would have found.
TEST(TraceRefusals, TheGeneratorIsAsBefore) {
  at::manual_seed(3);
  const at::Tensor expected = at::rand({2});
  at::manual_seed(3);
  refused({at::randn({0})}, [](const Tensors& x) {
    at::manual_seed(7);
    return Tensors{x[0] + 1};
  });
  EXPECT_TRUE(at::equal(at::rand({2}), expected));
}

TEST(TraceRefusals, TensorsOfVeryManyDimensions) {
  refused({at::ones(std::vector<int64_t>(65, 1))}, [](const Tensors& x) { return Tensors{x[0] + 1}; });
  check({at::ones(std::vector<int64_t>(64, 1))}, [](const Tensors& x) { return Tensors{x[0] + 1}; });
}

TEST(TraceSchemas, UnsafeViewSharesMemory) {
  check({at::randn({2, 3}), at::randn({4, 5}), at::zeros({8, 15})}, [](const Tensors& x) {
    at::Tensor out = x[2];
    return Tensors{at::kron_out(out, x[0], x[1]) * 1};
  });
}

TEST(TraceSchemas, StridesAsTheKernelsGiveThem) {
  check({at::randn({5, 6, 7})}, [](const Tensors& x) { return Tensors{at::fft_rfftn(x[0])}; });
  check({at::randn({5, 3})}, [](const Tensors& x) { return Tensors{std::get<2>(at::_linalg_svd(x[0]))}; });
}

TEST(TraceSchemas, ChecksOfContentsAreCalls) {
  const auto t = check({at::eye(3) * 2}, [](const Tensors& x) { return Tensors{at::linalg_inv(x[0]) + 1}; });
  EXPECT_TRUE(has_op(t, "aten::_linalg_check_errors"));
}

}  // namespace
}  // namespace vesta::trace::test
