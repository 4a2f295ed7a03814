#include "base/no_fork.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace vesta {

namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kMostWait{1};
constexpr std::chrono::microseconds kPoll{50};

std::atomic<int> inside{0};
std::atomic<bool> forking{false};
thread_local int depth = 0;  // how many NoFork objects this thread holds

}  // namespace

void NoFork::wait_for_others() {
  forking = true;
  const auto end = steady_clock::now() + kMostWait;
  while (inside > 0 && steady_clock::now() < end) std::this_thread::sleep_for(kPoll);
}

void NoFork::go_on() { forking = false; }

void NoFork::start_anew() {
  inside = 0;
  forking = false;
}

NoFork::NoFork() {
  if (depth++ > 0) return;
  for (;;) {
    while (forking) std::this_thread::sleep_for(kPoll);
    ++inside;
    if (!forking) return;
    --inside;
  }
}

NoFork::~NoFork() {
  if (--depth == 0) --inside;
}

}  // namespace vesta
