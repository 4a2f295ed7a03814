// The C++ entry point on functions: argument and result kinds, recompiles, mutation, fallback, threads.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/fault.h"
#include "vesta/compile.h"

namespace {

using at::Tensor;

bool close(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() && a.dtype() == b.dtype() &&
         at::allclose(a, b, 1e-5, 1e-6, /*equal_nan=*/true);
}

TEST(CaptureFunctions, OneResult) {
  auto f = vesta::compile([](const Tensor& x, const Tensor& w) { return at::silu(at::mm(x, w)); });
  const Tensor x = at::randn({4, 8}), w = at::randn({8, 5});
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(close(f(x, w), at::silu(at::mm(x, w))));
  const auto report = f.report();
  EXPECT_EQ(report.variants.size(), 1u);
  EXPECT_EQ(report.hits, 1);
  EXPECT_EQ(report.misses, 1);
  EXPECT_TRUE(report.fallbacks.empty());
  EXPECT_NE(f.explain().find("silu"), std::string::npos);
}

TEST(CaptureFunctions, WarmCompilesAndRunsNothing) {
  int calls = 0, with_values = 0;
  auto program = [&](const Tensor& x, double by) {
    ++calls;
    with_values += x.unsafeGetTensorImpl()->has_storage() && x.storage().nbytes() > 0;
    return at::sigmoid(x) * by + 3;
  };
  for (const vesta::Options& options :
       {vesta::Options{}, vesta::Options{.deadline_ms = 0}, vesta::Options{.background = true}}) {
    auto f = vesta::compile(program, options);
    calls = with_values = 0;
    const Tensor x = at::randn({4, 8});
    const vesta::Warmed first = vesta::warm(f, x, 2.5), again = vesta::warm(f, x, 2.5);
    EXPECT_TRUE(first && first.is_new && first.eager.empty());
    EXPECT_TRUE(again && !again.is_new);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(with_values, 0);
    EXPECT_EQ(f.report().hits + f.report().misses, 0);
    EXPECT_TRUE(close(f(x, 2.5), at::sigmoid(x) * 2.5 + 3));
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(f.report().hits, 1);
    EXPECT_TRUE(f.report().fallbacks.empty());
  }
}

TEST(CaptureFunctions, WarmWaitsForACompileThatACallBegan) {
  auto f = vesta::compile([](const Tensor& x) { return at::sigmoid(x) * 7 + 3; }, {.background = true, .cache = false});
  const Tensor x = at::randn({4, 8});
  vesta::fault::inject("plan", [] { std::this_thread::sleep_for(std::chrono::milliseconds(200)); });
  f(x);  // eager
  const vesta::Warmed made = vesta::warm(f, x);
  vesta::fault::inject("plan", nullptr);
  EXPECT_TRUE(made && made.is_new);
  EXPECT_TRUE(close(f(x), at::sigmoid(x) * 7 + 3));
  EXPECT_EQ(f.report().hits, 1);
}

TEST(CaptureFunctions, WarmTakesShapes) {
  auto f = vesta::compile([](const Tensor& x, const Tensor& w) { return at::relu(at::mm(x, w)); });
  const Tensor x = at::randn({4, 8}), w = at::randn({8, 5});
  const auto made = vesta::warm_shapes(f, {{{4, 8}, {8, 5}}, {{6, 8}, {8, 5}}, {{7, 8}, {8, 5}}}, x, w);
  ASSERT_EQ(made.size(), 3u);
  EXPECT_TRUE(made[0] && made[0].is_new);
  EXPECT_TRUE(made[1] && made[1].is_new);  // the size is symbolic from here on
  EXPECT_TRUE(made[2] && !made[2].is_new);
  for (const int64_t rows : {4, 6, 7, 9}) {
    const Tensor y = at::randn({rows, 8});
    EXPECT_TRUE(close(f(y, w), at::relu(at::mm(y, w))));
  }
  EXPECT_EQ(f.report().variants.size(), 2u);
  EXPECT_THROW(vesta::warm_shapes(f, {{{4, 8}}}, x, w), vesta::UserError);
}

TEST(CaptureFunctions, WarmSaysWhyACallRunsEager) {
  auto f = vesta::compile([](const Tensor& x) { return x * x.sum().item<double>(); });
  const vesta::Warmed made = vesta::warm(f, at::randn({4}));
  EXPECT_FALSE(made);
  EXPECT_FALSE(made.eager.empty());
  EXPECT_TRUE(f.report().fallbacks.empty());
  const Tensor gradient = at::randn({4}).requires_grad_();
  EXPECT_FALSE(vesta::warm(f, gradient));
}

TEST(CaptureFunctions, Containers) {
  using Parts = std::map<std::string, Tensor>;
  auto program = [](const std::vector<Tensor>& list, const Parts& named, std::optional<Tensor> extra, double scale,
                    std::pair<Tensor, int64_t> shift) {
    Tensor sum = named.at("a") * scale + named.at("b");
    for (const Tensor& t : list) sum = sum + t;
    if (extra) sum = sum * *extra;
    sum = sum + shift.first * shift.second;
    return std::tuple<Tensor, std::vector<Tensor>, std::map<std::string, Tensor>, int64_t, std::optional<Tensor>>{
        sum, {sum.neg(), sum.abs()}, {{"mean", sum.mean()}}, 7, std::nullopt};
  };
  auto f = vesta::compile(program);
  const std::vector<Tensor> list{at::randn({3, 4}), at::randn({3, 1}), at::randn({4})};
  const Parts named{{"a", at::randn({3, 4})}, {"b", at::randn({3, 4})}};
  const std::pair<Tensor, int64_t> shift{at::randn({4}), 3};
  for (const std::optional<Tensor>& extra : {std::optional<Tensor>(), std::optional<Tensor>(at::randn({3, 4}))}) {
    for (int i = 0; i < 2; ++i) {
      auto [sum, more, found, seven, none] = f(list, named, extra, 0.5, shift);
      auto [e_sum, e_more, e_found, e_seven, e_none] = program(list, named, extra, 0.5, shift);
      EXPECT_TRUE(close(sum, e_sum) && close(more.at(0), e_more[0]) && close(more.at(1), e_more[1]));
      EXPECT_TRUE(close(found.at("mean"), e_found["mean"]));
      EXPECT_EQ(seven, 7);
      EXPECT_FALSE(none.has_value());
    }
  }
  EXPECT_EQ(f.report().variants.size(), 2u);
  EXPECT_TRUE(f.report().fallbacks.empty());
}

TEST(CaptureFunctions, NewShapesAndDtypesRecompile) {
  auto program = [](const Tensor& x) { return at::softmax(x * 2, -1); };
  auto f = vesta::compile(program);
  for (int64_t n : {4, 5, 6, 1, 0, 9}) {
    const Tensor x = at::randn({n, 3});
    EXPECT_TRUE(close(f(x), program(x)));
  }
  for (const auto dtype : {at::kDouble, at::kFloat})
    EXPECT_TRUE(close(f(at::ones({4, 3}, dtype)), program(at::ones({4, 3}, dtype))));
  const Tensor turned = at::randn({3, 4}).t();
  EXPECT_TRUE(close(f(turned), program(turned)));
  EXPECT_TRUE(f.report().fallbacks.empty());
  EXPECT_LE(f.report().variants.size(), 8u);
  EXPECT_FALSE(f.report().recompiles.empty());
}

TEST(CaptureFunctions, DynamicNeedsOneVariant) {
  vesta::Options options;
  options.dynamic = true;
  auto f = vesta::compile([](const Tensor& x) { return at::relu(x) + x.sum(0, true); }, options);
  for (int64_t n = 2; n < 12; ++n) {
    const Tensor x = at::randn({n, n + 3});
    EXPECT_TRUE(close(f(x), at::relu(x) + x.sum(0, true)));
  }
  EXPECT_EQ(f.report().variants.size(), 1u);
}

TEST(CaptureFunctions, WithoutKernelsEveryOperatorIsACall) {
  vesta::Options options;
  options.kernels = false;
  auto program = [](const Tensor& x) { return at::softmax(at::relu(x) * 1 + x.sum(0, true), -1); };
  auto f = vesta::compile(program, options);
  for (const int64_t n : {3, 7}) {
    const Tensor x = at::randn({n, 5});
    EXPECT_TRUE(at::equal(f(x), program(x)));
  }
  for (const vesta::CompileReport& r : f.report().variants) {
    EXPECT_TRUE(r.kernels.empty());
    EXPECT_EQ(r.ops_extern, 5);
  }
}

TEST(CaptureFunctions, MutationAndViews) {
  auto program = [](Tensor& x, const Tensor& y) {
    x.add_(y);
    x.select(0, 1).mul_(2);
    return std::make_pair(x.view({-1}), y.t());
  };
  auto f = vesta::compile(program);
  Tensor x = at::randn({3, 4}), y = at::randn({3, 4});
  for (int i = 0; i < 3; ++i) {
    Tensor other = x.clone();
    const auto [a, b] = f(x, y);
    const auto [c, d] = program(other, y);
    EXPECT_TRUE(close(x, other) && close(a, c) && close(b, d));
    EXPECT_EQ(a.const_data_ptr(), x.const_data_ptr());
    EXPECT_EQ(b.const_data_ptr(), y.const_data_ptr());
  }
  EXPECT_TRUE(f.report().fallbacks.empty());
}

TEST(CaptureFunctions, ConjugatesArePendingWhereEagersAre) {
  auto program = [](Tensor& x) {
    const Tensor y = x * 2;
    x.select(0, 1).mul_(3);
    return std::vector<Tensor>{x.conj(), y.mT().conj(), at::imag(y.conj()), x.conj() * 2, x.conj().resolve_conj()};
  };
  auto f = vesta::compile(program);
  const Tensor z = at::randn({3, 4}, at::kComplexFloat);
  for (const bool conjugate : {false, true, false}) {
    Tensor x = conjugate ? z.clone().conj() : z.clone(), other = conjugate ? z.clone().conj() : z.clone();
    const auto ours = f(x);
    const auto eagers = program(other);
    EXPECT_TRUE(close(x, other));
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_TRUE(close(ours[i], eagers[i])) << i;
      EXPECT_EQ(ours[i].is_conj(), eagers[i].is_conj()) << i;
      EXPECT_EQ(ours[i].is_neg(), eagers[i].is_neg()) << i;
      EXPECT_EQ(ours[i].is_alias_of(x), eagers[i].is_alias_of(other)) << i;
      EXPECT_EQ(ours[i].is_alias_of(ours[1]), eagers[i].is_alias_of(eagers[1])) << i;
    }
  }
  EXPECT_EQ(f.report().variants.size(), 2u);
  EXPECT_EQ(f.report().hits, 1);
  EXPECT_TRUE(f.report().fallbacks.empty());
}

TEST(CaptureFunctions, GuardInsideTheProgram) {
  auto f = vesta::compile([](const Tensor& x) {
    at::NoGradGuard guard;
    return at::tanh(x) + 1;
  });
  const Tensor x = at::randn({7});
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(close(f(x), at::tanh(x) + 1));
  EXPECT_TRUE(at::GradMode::is_enabled());
}

TEST(CaptureFunctions, GradientsSwitchedOnInsideTheProgram) {
  auto program = [](const Tensor& x) {
    at::AutoGradMode on(true);
    return at::tanh(x) + 1;
  };
  auto f = vesta::compile(program);
  at::NoGradGuard guard;
  const Tensor plain = at::randn({7}), x = at::randn({7}).set_requires_grad(true);
  // Compiled for a tensor that records none, and then given one that does; and the other way round.
  for (const Tensor& given : {plain, x, plain, x}) {
    const Tensor result = f(given);
    EXPECT_TRUE(close(result, program(given)));
    EXPECT_EQ(result.requires_grad(), given.requires_grad());
  }
  auto g = vesta::compile(program);
  for (const Tensor& given : {x, plain}) EXPECT_EQ(g(given).requires_grad(), given.requires_grad());
}

TEST(CaptureFunctions, WhatIsDetachedRequiresNoGradient) {
  auto f = vesta::compile([](const Tensor& x) { return std::make_tuple(x.detach(), x.view({-1}), x.detach().t()); });
  const Tensor x = at::randn({2, 3}).set_requires_grad(true);
  at::NoGradGuard guard;
  for (int i = 0; i < 2; ++i) {
    const auto [copy, view, turned] = f(x);
    EXPECT_FALSE(copy.requires_grad());
    EXPECT_TRUE(view.requires_grad());
    EXPECT_FALSE(turned.requires_grad());
    EXPECT_EQ(copy.data_ptr(), x.data_ptr());
    EXPECT_EQ(turned.data_ptr(), x.data_ptr());
  }
  EXPECT_TRUE(f.report().fallbacks.empty()) << f.report().fallbacks[0].reason;
}

TEST(CaptureFunctions, StrictThrowsWhatElseRunsEager) {
  auto program = [](const Tensor& x) { return x * x.max().item<float>(); };
  auto lenient = vesta::compile(program);
  const Tensor x = at::randn({4});
  EXPECT_TRUE(close(lenient(x), program(x)));
  ASSERT_EQ(lenient.report().fallbacks.size(), 1u);
  vesta::Options options;
  options.strict = true;
  auto strict = vesta::compile(program, options);
  EXPECT_THROW(strict(x), vesta::Unsupported);
  EXPECT_THROW(strict(x), vesta::Unsupported);
}

struct Mine : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(CaptureFunctions, ExceptionsPassThrough) {
  auto f = vesta::compile([](const Tensor& x) -> Tensor {
    if (x.size(0) == 3) throw Mine("three");
    return x + 1;
  });
  for (int i = 0; i < 2; ++i) EXPECT_THROW(f(at::ones({3})), Mine);
  EXPECT_TRUE(close(f(at::ones({4})), at::full({4}, 2.0)));
  auto g = vesta::compile([](const Tensor& a, const Tensor& b) { return at::mm(a, b); });
  std::string eager, ours;
  try {
    at::mm(at::ones({2, 3}), at::ones({2, 3}));
  } catch (const std::exception& e) {
    eager = e.what();
  }
  try {
    g(at::ones({2, 3}), at::ones({2, 3}));
  } catch (const std::exception& e) {
    ours = e.what();
  }
  EXPECT_EQ(ours.substr(0, ours.find('\n')), eager.substr(0, eager.find('\n')));
}

TEST(CaptureFunctions, ThreadsCompileAndCall) {
  auto program = [](const Tensor& x) { return at::softmax(at::gelu(x), -1); };
  auto shared = vesta::compile(program);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int n = 0; n < 8; ++n) {
    threads.emplace_back([&, n] {
      auto own = vesta::compile([n](const Tensor& x) { return at::relu(x + n); });
      for (int i = 0; i < 10; ++i) {
        const Tensor x = at::randn({2 + (n + i) % 4, 5});
        wrong += !close(shared(x), program(x));
        wrong += !close(own(x), at::relu(x + n));
        if (n == 0 && i == 5) shared.reset();
        (void)shared.report();
        (void)vesta::reports();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(CaptureFunctions, WeightsArePackedInTheBackground) {
  using namespace std::chrono_literals;
  const Tensor w = at::randint(-3, 4, {1024, 1024}).to(at::kFloat);  // sums of integers have no rounding errors
  auto f = vesta::compile([w](const Tensor& x) { return at::linear(x, w); }, {.background = true, .cache = false});
  const Tensor x = at::randint(-3, 4, {64, 1024}).to(at::kFloat);
  EXPECT_TRUE(close(f(x), at::linear(x, w)));
  EXPECT_TRUE(vesta::wait(60));
  const auto check = [&] {
    vesta::fault::inject("pack", [] { std::this_thread::sleep_for(500ms); });
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(close(f(x), at::linear(x, w)));
    EXPECT_LT(std::chrono::steady_clock::now() - start, 400ms);
    EXPECT_TRUE(vesta::wait(60));
    vesta::fault::inject("pack", nullptr);
    EXPECT_TRUE(close(f(x), at::linear(x, w)));
  };
  check();
  ASSERT_EQ(f.report().variants.size(), 1u);
  EXPECT_GT(f.report().variants[0].packed_bytes, 0);
  w.mul_(2);  // is packed once more
  check();
  const auto is_packing = [](const vesta::Fallback& b) {
    return b.reason == "its weights are packed in the background";
  };
  const std::vector<vesta::Fallback> fallbacks = f.report().fallbacks;
  const auto packing = std::ranges::find_if(fallbacks, is_packing);
  ASSERT_NE(packing, fallbacks.end());
  EXPECT_EQ(packing->count, 4);
}

TEST(CaptureFunctions, ACallWaitsNoLongerThanItsDeadline) {
  using namespace std::chrono_literals;
  vesta::fault::inject("plan", [] { std::this_thread::sleep_for(500ms); });
  for (const vesta::Options& options :
       {vesta::Options{.deadline_ms = 10, .cache = false}, vesta::Options{.background = true, .cache = false}}) {
    auto f = vesta::compile([](const Tensor& x) { return at::silu(x) + 1; }, options);
    const Tensor x = at::randn({4, 8});
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(close(f(x), at::silu(x) + 1));
    EXPECT_LT(std::chrono::steady_clock::now() - start, 400ms);
    EXPECT_TRUE(f.report().variants.empty());
    EXPECT_EQ(f.report().fallbacks.size(), 1u);
    EXPECT_TRUE(vesta::wait(60));
    EXPECT_TRUE(close(f(x), at::silu(x) + 1));
    EXPECT_EQ(f.report().variants.size(), 1u);
    f.reset();
  }
  vesta::fault::inject("plan", nullptr);
}

TEST(CaptureFunctions, TheEnvironmentHasADeadline) {
  vesta::fault::inject("plan", [] { std::this_thread::sleep_for(std::chrono::milliseconds(300)); });
  const char* const before = std::getenv("VESTA_DEADLINE_MS");
  const std::string kept = before ? before : "";
  const Tensor x = at::randn({4, 8});
  for (const char* text : {"5", "-1"}) {
    setenv("VESTA_DEADLINE_MS", text, 1);
    auto f = vesta::compile([](const Tensor& t) { return at::silu(t) + 2; }, {.cache = false});
    EXPECT_TRUE(close(f(x), at::silu(x) + 2));
    EXPECT_EQ(f.report().variants.empty(), text[0] == '5');
  }
  before ? setenv("VESTA_DEADLINE_MS", kept.c_str(), 1) : unsetenv("VESTA_DEADLINE_MS");
  vesta::fault::inject("plan", nullptr);
  EXPECT_TRUE(vesta::wait(60));
}

// The fourth call runs eager for good. Its reason names a deadline that would be enough.
TEST(CaptureFunctions, ATraceEndsAtTheDeadline) {
  const auto long_sum = [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 5000; ++i) y = y + 1;
    return y;
  };
  auto f = vesta::compile(long_sum, {.deadline_ms = 1});
  const Tensor x = at::zeros({2});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(close(f(x), x + 5000));
  const std::vector<vesta::Fallback> fallbacks = f.report().fallbacks;
  ASSERT_GE(fallbacks.size(), 2u);
  EXPECT_EQ(fallbacks[0].reason, "it takes longer to trace than the option deadline_ms allows (1 ms)");
  double enough_ms = 0;
  for (const vesta::Fallback& b : fallbacks) {
    const size_t at = b.reason.find("(1 ms; ");
    if (at == std::string::npos) continue;
    EXPECT_NE(b.reason.find(" ms would be enough)"), std::string::npos) << b.reason;
    enough_ms = std::max(enough_ms, std::stod(b.reason.substr(at + 7)));
  }
  EXPECT_GT(enough_ms, 1);
  // Twice, because the machine may become slower.
  auto patient = vesta::compile(long_sum, {.deadline_ms = static_cast<int64_t>(2 * enough_ms)});
  EXPECT_TRUE(close(patient(x), x + 5000));
  EXPECT_TRUE(vesta::wait(60));
  EXPECT_TRUE(close(patient(x), x + 5000));
  EXPECT_EQ(patient.report().variants.size(), 1u);
}

}  // namespace
