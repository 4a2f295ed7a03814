#include "base/memory_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace {

using vesta::assign_offsets;
using vesta::BufferLifetime;

TEST(MemoryPlan, DisjointLifetimesShare) {
  std::vector<BufferLifetime> buffers = {{100, 0, 1}, {100, 2, 3}, {60, 1, 2}};
  std::vector<int64_t> offsets;
  EXPECT_EQ(assign_offsets(buffers, offsets), 128 + 64);
  EXPECT_EQ(offsets[0], offsets[1]);
}

TEST(MemoryPlan, EmptyBuffersTakeNothing) {
  std::vector<BufferLifetime> buffers = {{0, 0, 5}, {64, 0, 5}};
  std::vector<int64_t> offsets;
  EXPECT_EQ(assign_offsets(buffers, offsets), 64);
}

TEST(MemoryPlan, NoLiveBuffersOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<BufferLifetime> buffers(1 + random() % 40);
    for (auto& b : buffers) {
      b.bytes = random() % 1000;
      b.first_step = random() % 20;
      b.last_step = b.first_step + random() % 6;
    }
    std::vector<int64_t> offsets;
    const int64_t total = assign_offsets(buffers, offsets);
    for (size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_EQ(offsets[i] % vesta::kArenaAlignment, 0);
      EXPECT_LE(offsets[i] + buffers[i].bytes, total);
      for (size_t j = 0; j < i; ++j) {
        const bool together =
            buffers[i].first_step <= buffers[j].last_step && buffers[j].first_step <= buffers[i].last_step;
        const bool apart = offsets[i] + buffers[i].bytes <= offsets[j] || offsets[j] + buffers[j].bytes <= offsets[i];
        EXPECT_TRUE(!together || apart || buffers[i].bytes == 0 || buffers[j].bytes == 0) << round;
      }
    }
  }
}

}  // namespace
