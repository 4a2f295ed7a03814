// Which freed blocks are kept (runtime/free_blocks.h).
#include "runtime/free_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace vesta::runtime {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

// An allocator whose blocks have no memory.
class Blocks {
 public:
  void* get(size_t bytes) {
    void* memory = free.take(bytes);
    if (!memory) {
      free.note_new(bytes);
      all_.push_back(std::make_unique<char>());
      memory = all_.back().get();
      ++made;
    }
    drop();
    return memory;
  }
  void give_back(void* memory, size_t bytes) {
    free.give_back({memory, bytes});
    drop();
  }
  // Allocates blocks of these sizes, then frees them in the same order.
  void round(const std::vector<size_t>& sizes) {
    std::vector<std::pair<void*, size_t>> used;
    for (const size_t bytes : sizes) used.emplace_back(get(bytes), bytes);
    for (const auto& [memory, bytes] : used) give_back(memory, bytes);
  }

  FreeBlocks free;
  int made = 0;
  std::set<void*> dropped;

 private:
  void drop() {
    for (void* b : free.drop()) EXPECT_TRUE(dropped.insert(b).second);
  }
  std::vector<std::unique_ptr<char>> all_;
};

TEST(FreeBlocks, TheLastOneOfTheNearestSizeIsTaken) {
  Blocks b;
  void *const first = b.get(kMegabyte), *const second = b.get(kMegabyte), *const large = b.get(2 * kMegabyte);
  for (void* const block : {first, second}) b.give_back(block, kMegabyte);
  b.give_back(large, 2 * kMegabyte);
  EXPECT_EQ(b.free.in_use(), 0U);
  EXPECT_EQ(b.free.bytes(), 4 * kMegabyte);
  EXPECT_EQ(b.get(kMegabyte - 4096), second);
  EXPECT_EQ(b.get(kMegabyte), first);
  EXPECT_EQ(b.free.take(kMegabyte), nullptr);  // the large block would waste half of its bytes
  EXPECT_EQ(b.free.take(2 * kMegabyte - kMegabyte / 16), nullptr);
  EXPECT_EQ(b.get(2 * kMegabyte - kMegabyte / 64), large);
  EXPECT_EQ(b.free.bytes(), 0U);
  EXPECT_EQ(b.free.in_use(), 4 * kMegabyte);
}

TEST(FreeBlocks, WhatIsNotAllocatedAgainIsFreed) {
  Blocks b;
  b.round(std::vector<size_t>(10, 100 * kMegabyte));
  EXPECT_EQ(b.dropped.size(), 8U);
  EXPECT_LE(b.free.bytes(), FreeBlocks::kKept);
}

TEST(FreeBlocks, StepsOfALoopNeedNoNewBlocks) {
  Blocks b;
  std::vector<size_t> sizes;
  for (size_t i = 0; i < 12; ++i) sizes.push_back((50 + 10 * i) * kMegabyte);
  b.round(sizes);
  b.round(sizes);
  b.made = 0;
  b.dropped.clear();
  for (int i = 0; i < 1000; ++i) b.round(sizes);  // several periods
  EXPECT_EQ(b.made, 0);
  EXPECT_TRUE(b.dropped.empty());
}

// Blocks of one size cannot serve another one, and the phases of a loop need different ones.
TEST(FreeBlocks, NoMoreThanWasInUseAndTheLeast) {
  Blocks b;
  size_t most = 0, peak = 0;
  for (int i = 0; i < 50; ++i)
    for (size_t phase = 0; phase < 4; ++phase) {
      std::vector<void*> used;
      const size_t bytes = (200 + 20 * phase) * kMegabyte;
      for (int k = 0; k < 5; ++k) {
        used.push_back(b.get(bytes));
        peak = std::max(peak, b.free.in_use());
        most = std::max(most, b.free.in_use() + b.free.bytes());
      }
      for (void* const block : used) b.give_back(block, bytes);
      most = std::max(most, b.free.in_use() + b.free.bytes());
    }
  EXPECT_EQ(peak, 5 * 260 * kMegabyte);
  EXPECT_LE(most, peak + FreeBlocks::kKept);
}

TEST(FreeBlocks, WhatAPeriodDoesNotNeedIsFreedAtItsEnd) {
  Blocks b;
  const std::vector<size_t> large(10, 100 * kMegabyte);
  for (int i = 0; i < 3; ++i) b.round(large);
  EXPECT_EQ(b.free.bytes(), 1000 * kMegabyte);
  for (int i = 0; i < 3 * FreeBlocks::kPeriod; ++i) b.round({kMegabyte});
  EXPECT_LE(b.free.bytes(), FreeBlocks::kKept);
}

TEST(FreeBlocks, SpareOnesAreNamedOnce) {
  Blocks b;
  const std::vector<size_t> sizes(10, 100 * kMegabyte);
  for (int i = 0; i < 3; ++i) b.round(sizes);
  EXPECT_EQ(b.free.spare().size(), 8U);
  EXPECT_TRUE(b.free.spare().empty());
  void* const block = b.get(100 * kMegabyte);  // the last one, which is not spare
  b.give_back(block, 100 * kMegabyte);
  EXPECT_TRUE(b.free.spare().empty());
  b.round(sizes);
  EXPECT_EQ(b.free.spare().size(), 8U);
  EXPECT_EQ(b.free.drop_all().size(), 10U);
  EXPECT_EQ(b.free.bytes(), 0U);
  EXPECT_TRUE(b.free.spare().empty());
}

}  // namespace
}  // namespace vesta::runtime
