// Kernels run on PyTorch's threads: as many as torch.set_num_threads says, every item once.
#include "runtime/parallel.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace vesta::runtime {
namespace {

struct Observed {
  std::mutex mutex;
  std::set<std::thread::id> threads;
};

void count(void* const* buffers, const int64_t*, void*, int64_t begin, int64_t end) {
  std::this_thread::sleep_for(std::chrono::microseconds(200));  // all threads have begun before the work is done
  auto* seen = static_cast<Observed*>(buffers[0]);
  auto* items = static_cast<std::vector<int>*>(buffers[1]);
  for (int64_t i = begin; i < end; ++i) ++(*items)[static_cast<size_t>(i)];
  std::lock_guard lock(seen->mutex);
  seen->threads.insert(std::this_thread::get_id());
}

class Parallel : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { at::set_num_threads(GetParam()); }
  void TearDown() override { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

TEST_P(Parallel, UsesAsManyThreadsAsTorch) {
  constexpr int64_t kItems = 1000;
  Observed seen;
  std::vector<int> items(kItems, 0);
  void* buffers[] = {&seen, &items};
  run_parallel(count, buffers, nullptr, 0, kItems, 1);
  EXPECT_EQ(seen.threads.size(), static_cast<size_t>(GetParam()));
  EXPECT_EQ(items, std::vector<int>(kItems, 1));
}

INSTANTIATE_TEST_SUITE_P(Threads, Parallel, testing::Values(1, 2, 3));

TEST_P(Parallel, DoesEveryItemOnce) {
  for (const int64_t items : {1, 2, 3, 7, 64, 1001})
    for (const int64_t grain : {1, 3, 100}) {
      Observed seen;
      std::vector<int> done(static_cast<size_t>(items), 0);
      void* buffers[] = {&seen, &done};
      run_parallel(count, buffers, nullptr, 0, items, grain);
      EXPECT_EQ(done, std::vector<int>(static_cast<size_t>(items), 1)) << items << " items, grain " << grain;
    }
}

struct Shares {
  std::mutex mutex;
  std::map<std::thread::id, int64_t> items;
  std::thread::id late;
};

// The thread that gets the first item sleeps.
void late(void* const* buffers, const int64_t*, void*, int64_t begin, int64_t end) {
  auto* shares = static_cast<Shares*>(buffers[0]);
  std::this_thread::sleep_for(std::chrono::milliseconds(begin == 0 ? 300 : 1));
  std::lock_guard lock(shares->mutex);
  shares->items[std::this_thread::get_id()] += end - begin;
  if (begin == 0) shares->late = std::this_thread::get_id();
}

TEST(ParallelThreads, DoTheItemsOfOneThatIsLate) {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  Shares shares;
  void* buffers[] = {&shares};
  run_parallel(late, buffers, nullptr, 0, 160, 1);
  at::set_num_threads(before);
  int64_t all = 0;
  for (const auto& [thread, items] : shares.items) all += items;
  EXPECT_EQ(all, 160);
  EXPECT_LE(shares.items[shares.late], 40);  // of its own 80
}

TEST(ParallelGrain, SmallWorkStaysOnTheCallingThread) {
  EXPECT_EQ(parallel_grain(10, 100), 0);
  EXPECT_EQ(parallel_grain(1, 1'000'000), 0);
  EXPECT_EQ(parallel_grain(1000, 1000), 8);
}

}  // namespace
}  // namespace vesta::runtime
