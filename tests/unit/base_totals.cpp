#include "base/totals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <thread>
#include <vector>

#include "base/stage_clock.h"

namespace vesta {
namespace {

using totals::ByName;
using totals::Count;
using totals::Tally;

TEST(Totals, SumOfWhatWasAddedAndOfAllTallies) {
  totals::Total& total = totals::of(Count::Frames);
  totals::reset_counts();
  total.add(3);
  Tally first(total);
  std::optional<Tally> second(std::in_place, total);
  ++first;
  ++*second;
  ++*second;
  EXPECT_EQ(total.now(), 6);
  EXPECT_EQ(second->value(), 2);
  second.reset();  // the total keeps its count
  EXPECT_EQ(total.now(), 6);
  first.clear();
  EXPECT_EQ(first.value(), 0);
  EXPECT_EQ(total.now(), 6);
  ++first;
  EXPECT_EQ(total.now(), 7);
}

TEST(Totals, ResetLeavesTheCountsOfObjects) {
  totals::Total& total = totals::of(Count::Segments);
  Tally tally(total);
  ++tally;
  totals::reset_counts();
  EXPECT_EQ(total.now(), 0);
  EXPECT_EQ(tally.value(), 1);
  ++tally;
  EXPECT_EQ(total.now(), 1);
}

TEST(Totals, NamesAreBounded) {
  totals::reset_counts();
  for (int i = 0; i < 1000; ++i) totals::of(ByName::Fallbacks, "reason " + std::to_string(i)).add();
  const auto all = totals::by_name(ByName::Fallbacks);
  EXPECT_LE(all.size(), 257u);
  EXPECT_EQ(all.at("reason 7"), 1);
  int64_t sum = 0;
  for (const auto& [name, n] : all) sum += n;
  EXPECT_EQ(sum, 1000);
  EXPECT_GT(all.at("other"), 700);
  totals::reset_counts();
  EXPECT_TRUE(totals::by_name(ByName::Fallbacks).empty());
}

TEST(Totals, ThreadsMakeAndCount) {
  totals::Total& total = totals::of(Count::Misses);
  totals::reset_counts();
  constexpr int kThreads = 4, kTimes = 2000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < kTimes; ++i) {
        Tally own(total);
        own.count_shared();
        ++own;
        total.add();
        EXPECT_GE(total.now(), 3);
        totals::by_name(ByName::Breaks);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(total.now(), 3 * kThreads * kTimes);
}

TEST(Totals, BytesFollowTheObject) {
  const int64_t before = totals::bytes(totals::Memory::Code);
  {
    totals::KeptBytes held(totals::Memory::Code, 100);
    EXPECT_EQ(totals::bytes(totals::Memory::Code), before + 100);
    held.set(40);
    EXPECT_EQ(totals::bytes(totals::Memory::Code), before + 40);
  }
  EXPECT_EQ(totals::bytes(totals::Memory::Code), before);
}

TEST(Totals, PeaksAndOwners) {
  using totals::Memory;
  totals::reset_counts();
  const int64_t before = totals::bytes(Memory::Arenas);
  {
    totals::KeptBytes mine(Memory::Arenas, totals::name_of_thread()), more(Memory::Arenas, totals::name_of_thread());
    mine.set(100);
    more.set(20);
    mine.set(30);
    EXPECT_EQ(totals::bytes_by_owner(Memory::Arenas).at(totals::name_of_thread()), 50);
    EXPECT_EQ(totals::peak_bytes(Memory::Arenas), before + 120);
    totals::reset_counts();
    EXPECT_EQ(totals::peak_bytes(Memory::Arenas), before + 50);
  }
  EXPECT_TRUE(totals::bytes_by_owner(Memory::Arenas).empty());
  EXPECT_EQ(totals::bytes(Memory::Arenas), before);
}

TEST(Totals, AForkedChildCounts) {
  totals::of(Count::Variants).add();
  std::atomic<bool> end{false};
  std::thread busy([&] {
    while (!end) Tally(totals::of(Count::Variants)).count_shared();
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);  // a child that waits for a lock ends here
      Tally tally(totals::of(Count::Variants));
      ++tally;
      _exit(totals::of(Count::Variants).now() > 0 ? 0 : 1);
    }
    int status = 1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  end = true;
  busy.join();
}

TEST(StageClock, AStageThatThrowsCounts) {
  totals::reset_counts();
  try {
    const StageClock clock("sample");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_GE(clock.milliseconds(), 2);
    throw 1;
  } catch (int) {
  }
  EXPECT_EQ(totals::by_name(ByName::StageRuns).at("sample"), 1);
  EXPECT_GE(totals::by_name(ByName::StageNanoseconds).at("sample"), 2'000'000);
}

}  // namespace
}  // namespace vesta
