// The meter on a driver of the tests (fake_cuda.cpp), in whose time launches take as long as a block has threads, and
// longer on memory that they have used.
#include <gtest/gtest.h>

#include <cmath>

#include "machine/cuda/code.h"
#include "machine/cuda/meter.h"

namespace vesta::machine {
namespace {

constexpr int64_t kCache = 4 << 10;

Object code(const std::string& symbol) { return {Form::Cuda, symbol, write_cuda_code(90, true, "cubin", "ptx")}; }

// The second of two buffers begins in the middle.
Trial trial(int64_t bytes) { return {{{0, false}, {bytes / 2, false}}, bytes, {7}, 100}; }

TEST(Meter, LaunchesInTheirOrderOfTime) {
  const Object objects[] = {code("a"), code("b"), code("c")};
  const auto meter = make_meter(0, kCache);
  const TimedKernel kernels[] = {
      {objects, {3, 256, 0}, 5}, {&objects[1], {3, 128, 0}, 5}, {&objects[2], {3, 512, 0}, 5}};
  const auto us = meter->measure(trial(1 << 10), kernels);
  ASSERT_TRUE(us);
  ASSERT_EQ(us->size(), 3u);
  // 8 launches, each on memory of its own: what a launch finds there is how often others came by.
  const double used = (*us)[0] - 256;
  EXPECT_GT(used, 0);
  EXPECT_LT(used, 2 * 3 * 8);
  EXPECT_NEAR((*us)[1], 128 + used, 2 * 2);
  EXPECT_NEAR((*us)[2], 512 + used, 2 * 4);
  // Its memory is zero again.
  const auto again = meter->measure(trial(1 << 10), std::span(kernels, 1));
  ASSERT_TRUE(again);
  EXPECT_LT((*again)[0], 256 + 6);
}

TEST(Meter, WhatTheDriverRefuses) {
  const Object objects[] = {code("a"), code("b")};
  const auto meter = make_meter(0, kCache);
  const TimedKernel kernels[] = {{objects, {3, 96, 0}, 5}, {&objects[1], {3, 128, 0}, 5}};
  const auto us = meter->measure(trial(64), kernels);
  ASSERT_TRUE(us);
  EXPECT_TRUE(std::isinf((*us)[0]));
  EXPECT_FALSE(std::isinf((*us)[1]));
}

// What a launch asks for and what the code declares may be more than a kernel gets without asking.
TEST(Meter, SharedMemory) {
  const Object objects[] = {code("a"), code("b"), code("c")};
  const auto meter = make_meter(0, kCache);
  const TimedKernel kernels[] = {
      {objects, {3, 128, 40 << 10}, 5}, {&objects[1], {3, 128, 48 << 10}, 5}, {&objects[2], {3, 128, 200 << 10}, 5}};
  const auto us = meter->measure(trial(64), kernels);
  ASSERT_TRUE(us);
  for (const double t : *us) EXPECT_FALSE(std::isinf(t));
}

TEST(Meter, Memory) {
  const Object object = code("a");
  const TimedKernel kernel{&object, {3, 128, 0}, 5};
  const auto meter = make_meter(0, kCache);
  // A MiB is free, of which it takes half.
  EXPECT_FALSE(meter->measure(trial(3 << 18), std::span(&kernel, 1)));
  EXPECT_TRUE(meter->measure(trial(1 << 19), std::span(&kernel, 1)));
  EXPECT_TRUE(meter->measure(trial(1 << 12), std::span(&kernel, 1)));
  // As often as there is room for it.
  const auto large_cache = make_meter(0, 1 << 30);
  EXPECT_TRUE(large_cache->measure(trial(1 << 17), std::span(&kernel, 1)));
  // Values in the place of pointers, and no memory at all.
  const Trial values{{{0, true}, {0, true}}, 0, {7}, 0};
  const auto us = meter->measure(values, std::span(&kernel, 1));
  ASSERT_TRUE(us);
  EXPECT_NEAR((*us)[0], 128, 0.01);
}

}  // namespace
}  // namespace vesta::machine
