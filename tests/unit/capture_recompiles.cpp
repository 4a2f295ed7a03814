// Recompiles of a C++ function take a share of the time of its calls: Options::recompile_share.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/fault.h"
#include "vesta/compile.h"

namespace {

using at::Tensor;
using namespace std::chrono_literals;

std::atomic<bool> is_slow{false};

Tensor program(const Tensor& x) {
  if (is_slow) std::this_thread::sleep_for(50ms);
  return (at::sin(x) + 1).sum(-1);
}

auto compiled(double share, bool strict = false) {
  return vesta::compile(program, {.dynamic = false, .strict = strict, .recompile_share = share, .cache = false});
}
using Compiled = decltype(compiled(0));

void check(Compiled& f, int64_t rows) {
  const Tensor x = at::randn({rows, 8});
  EXPECT_TRUE(at::allclose(f(x), program(x)));
}

int64_t put_off(const Compiled& f) {
  int64_t count = 0;
  for (const vesta::Fallback& each : f.report().fallbacks)
    if (each.reason.find("the option recompile_share") != std::string::npos) count += each.count;
  return count;
}

TEST(RecompileShare, BoundsTheTimeOfRecompiles) {
  Compiled bounded = compiled(100), unbounded = compiled(-1), strict = compiled(100, true);
  std::vector<std::thread> threads;
  for (Compiled* f : {&bounded, &unbounded, &strict}) check(*f, 1);
  vesta::fault::inject("plan", [] { std::this_thread::sleep_for(2100ms); });  // more than what is not counted
  for (Compiled* f : {&bounded, &unbounded, &strict}) threads.emplace_back([f] { check(*f, 2); });
  for (std::thread& t : threads) t.join();
  vesta::fault::inject("plan", nullptr);

  for (int i = 0; i < 3; ++i) check(bounded, 3);
  EXPECT_EQ(bounded.report().variants.size(), 2u);
  EXPECT_EQ(put_off(bounded), 3);
  check(bounded, 2);  // calls of this size find a variant
  EXPECT_EQ(put_off(bounded), 3);
  is_slow = true;
  check(bounded, 3);  // runs eager, and takes enough time for a compile
  is_slow = false;
  check(bounded, 3);
  EXPECT_EQ(bounded.report().variants.size(), 3u);
  EXPECT_EQ(put_off(bounded), 4);

  check(unbounded, 3);
  EXPECT_EQ(unbounded.report().variants.size(), 3u);
  check(strict, 3);
  EXPECT_EQ(strict.report().variants.size(), 3u);
}

}  // namespace
