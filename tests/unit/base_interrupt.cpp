#include "base/interrupt.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/stopwatch.h"

namespace vesta {
namespace {

std::atomic<bool> signal_came{false};

struct Interrupt : testing::Test {
  Interrupt() {
    signal_came = false;
    interrupt::set([] { return signal_came.load(); });
  }
  ~Interrupt() override { interrupt::set(nullptr); }

  bool wait(double seconds) {
    std::unique_lock lock(mutex);
    return interrupt::wait_until(changed, lock, end_after(seconds), [&] { return done; });
  }

  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
};

TEST_F(Interrupt, EndsAWait) {
  std::thread other([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    signal_came = true;
  });
  const Stopwatch watch;
  EXPECT_FALSE(wait(-1));
  EXPECT_GE(watch.milliseconds(), 50);
  EXPECT_LT(watch.milliseconds(), 10'000);
  other.join();
}

TEST_F(Interrupt, AWaitEndsByItself) {
  std::thread other([&] {
    const std::lock_guard lock(mutex);
    done = true;
    changed.notify_all();
  });
  EXPECT_TRUE(wait(-1));
  other.join();
  done = false;
  const Stopwatch watch;
  EXPECT_FALSE(wait(0.05));
  EXPECT_GE(watch.milliseconds(), 50);
  signal_came = true;
  done = true;
  EXPECT_TRUE(wait(0));  // what is done counts
}

TEST_F(Interrupt, NothingAsks) {
  interrupt::set(nullptr);
  signal_came = true;
  const Stopwatch watch;
  EXPECT_FALSE(wait(0.05));
  EXPECT_GE(watch.milliseconds(), 50);
}

}  // namespace
}  // namespace vesta
