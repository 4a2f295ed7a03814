#include "base/compile_memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>

namespace vesta {
namespace {

using Part = CompileMemory::Part;
constexpr int64_t kBudget = 8 << 20;  // 3 MiB for plans, 4 MiB for generators
constexpr int64_t kMiB = 1 << 20;

TEST(CompileMemory, WaitsForOthersOfItsPart) {
  std::optional<CompileMemory> first(std::in_place, Part::Plans);
  first->take(2 * kMiB, kBudget, "a plan", nullptr);
  CompileMemory other(Part::Generators);
  other.take(4 * kMiB, kBudget, "a kernel", nullptr);  // the parts do not wait for each other
  std::atomic<bool> taken{false};
  std::thread second([&] {
    CompileMemory memory(Part::Plans);
    memory.take(2 * kMiB, kBudget, "a plan", nullptr);
    taken = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(taken);
  first->take(kMiB, kBudget, "a plan", nullptr);  // less than before
  second.join();
  EXPECT_TRUE(taken);
  first.reset();
  EXPECT_EQ(totals::bytes(totals::Memory::Plans), 0);
}

TEST(CompileMemory, RefusesWhatIsTooLargeAlone) {
  CompileMemory memory(Part::Plans);
  memory.take(3 * kMiB, kBudget, "a plan", nullptr);
  try {
    memory.take(3 * kMiB + 1, kBudget, "the plan of 5 operators", nullptr);
    FAIL();
  } catch (const OverBudget& e) {
    EXPECT_EQ(
        std::string(e.what()),
        "the plan of 5 operators takes about 3.0 MiB of memory, and the option compile_memory (8.0 MiB) leaves 3.0 "
        "MiB for it; with 8.0 MiB it would fit");
  }
  CompileMemory larger(Part::Plans);
  EXPECT_NO_THROW(larger.require(3 * kMiB + 1, kBudget + 8, "a plan"));  // the budget that the message names, in bytes
}

TEST(CompileMemory, ACancelledCompileStopsWaiting) {
  CompileMemory first(Part::Generators);
  first.take(4 * kMiB, kBudget, "a kernel", nullptr);
  CancelToken cancel;
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cancel.cancel();
  });
  CompileMemory second(Part::Generators);
  EXPECT_THROW(second.take(kMiB, kBudget, "a kernel", &cancel), Cancelled);
  canceller.join();
}

TEST(CompileMemory, AForkedChildWaitsForNoThreadOfItsParent) {
  CompileMemory parents(Part::Generators);
  parents.take(4 * kMiB, kBudget, "a kernel", nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    CompileMemory own(Part::Generators);
    own.take(4 * kMiB, kBudget, "a kernel", nullptr);
    _exit(0);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(CompileMemory, TheDefaultIsAQuarter) {
  EXPECT_EQ(compile_budget(-1), usable_memory() / 4);
  EXPECT_EQ(compile_budget(1000), 1000);
  EXPECT_GT(usable_memory(), int64_t{64} << 20);
  EXPECT_LE(usable_memory(), static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE));
}

TEST(CompileMemory, GraphsOfTheProcessCountTogether) {
  totals::KeptBytes one(totals::Memory::Graphs, kMiB / 2), other(totals::Memory::Graphs, kMiB / 2);
  EXPECT_TRUE(graphs_fit(kBudget));
  other.set(kMiB / 2 + 1);
  EXPECT_FALSE(graphs_fit(kBudget));
}

}  // namespace
}  // namespace vesta
