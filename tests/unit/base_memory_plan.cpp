#include "base/memory_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace {

using vesta::ArenaLayout;
using vesta::assign_offsets;
using vesta::BufferLifetime;
using vesta::lay_out_arena;

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

// Memory of steps that end before a large result is made is released first.
TEST(MemoryPlan, EarlyBlock) {
  const int64_t mib = int64_t{1} << 20;
  std::vector<BufferLifetime> buffers = {
      {mib, 0, 2}, {mib, 1, 3}, {mib / 16, 3, 4}, {mib / 2, 1, 2, false}, {8 * mib, 4, 4, false}};
  const ArenaLayout layout = lay_out_arena(buffers);
  EXPECT_EQ(layout.early_end, 4);
  EXPECT_EQ(layout.early_bytes, 2 * mib);
  EXPECT_EQ(layout.kept_bytes, mib / 16);
  EXPECT_EQ(layout.offsets, (std::vector<int64_t>{0, mib, 0, -1, -1}));
  EXPECT_TRUE(layout.is_early(3));
  EXPECT_FALSE(layout.is_early(4));

  // Not where the peak is before it, nor for a result that hardly counts, nor for one that is there from the start.
  auto one_block = [](std::vector<BufferLifetime> b) { return lay_out_arena(b).early_end == 0; };
  buffers[3].bytes = 9 * mib;
  EXPECT_TRUE(one_block(buffers));
  buffers[3].bytes = mib / 2;
  buffers[4].bytes = mib / 2 + 1000;
  EXPECT_TRUE(one_block(buffers));
  buffers[4] = {8 * mib, 0, 4, false};
  EXPECT_TRUE(one_block(buffers));
  EXPECT_TRUE(one_block({}));
}

}  // namespace
