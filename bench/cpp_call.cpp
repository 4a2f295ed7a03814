// The time in nanoseconds of a call of a compiled C++ program: relu(x * y + 1) on 8x8, the least of several rounds,
// beside eager and beside the loop that the kernel consists of. Prints one line of JSON.
#include <torch/torch.h>
#include <vesta/compile.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace {

template <class F>
double nanoseconds(F&& call) {
  constexpr int kRounds = 15, kCalls = 20'000;
  double least = 1e300;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    least = std::min(least, took.count() / kCalls);
  }
  return least;
}

// Not inlined, so that the arrays are as unknown to it as to a kernel.
__attribute__((noinline)) void loop(const float* x, const float* y, float* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = std::max(x[i] * y[i] + 1.0F, 0.0F);
}

}  // namespace

int main() {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({8, 8}), y = at::randn({8, 8});
  const auto program = [](const at::Tensor& a, const at::Tensor& b) { return at::relu(a * b + 1); };
  auto compiled = vesta::compile(program, {.strict = true});
  if (!at::equal(compiled(x, y), program(x, y))) {
    std::fputs("the compiled program gives another result than eager\n", stderr);
    return 1;
  }
  at::Tensor out = at::empty({8, 8});
  const double hit = nanoseconds([&] { compiled(x, y); });
  const double eager = nanoseconds([&] { program(x, y); });
  const double kernel = nanoseconds(
      [&] { loop(x.const_data_ptr<float>(), y.const_data_ptr<float>(), out.mutable_data_ptr<float>(), 64); });
  std::printf("{\"hit_ns\": %.0f, \"kernel_ns\": %.0f, \"eager_ns\": %.0f}\n", hit, kernel, eager);
  return 0;
}
