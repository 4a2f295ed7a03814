#include "base/at_fork.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "base/no_fork.h"

namespace vesta {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::string calls;

const AtFork last(ForkStage::Accounts, [] { calls += "a"; }, [] { calls += "A"; }, [] { calls += "1"; });
const AtFork first(ForkStage::Generators, [] { calls += "g"; }, [] { calls += "G"; }, [] { calls += "2"; });
const AtFork only_in_children(ForkStage::Compiles, nullptr, nullptr, [] { calls += "3"; });

// The exit status of a child that runs `body`.
template <class F>
int in_child(F&& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(AtFork, LocksAreTakenByStageAndGivenBackInReverse) {
  calls.clear();
  EXPECT_EQ(in_child([] { return calls == "ga132"; }), 0);
  EXPECT_EQ(calls, "gaAG");
}

TEST(NoFork, IsWaitedForAndMayBeNested) {
  std::atomic<bool> holds{false}, inner{false};
  std::thread other([&] {
    const NoFork outer;
    holds = true;
    std::this_thread::sleep_for(milliseconds(100));
    const NoFork nested;  // while the other thread waits in fork()
    inner = true;
  });
  while (!holds) std::this_thread::yield();
  const auto begin = steady_clock::now();
  EXPECT_EQ(in_child([&] { return inner.load(); }), 0);
  EXPECT_LT(steady_clock::now() - begin, milliseconds(900));  // the longest wait is a second
  other.join();
}

}  // namespace
}  // namespace vesta
