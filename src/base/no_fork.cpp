#include "base/no_fork.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace vesta {

namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kMostWait{1};
constexpr std::chrono::microseconds kPoll{50};

std::atomic<int> inside{0};
std::atomic<bool> forking{false}, registered{false};

void before_fork() {
  forking = true;
  const auto end = steady_clock::now() + kMostWait;
  while (inside > 0 && steady_clock::now() < end) std::this_thread::sleep_for(kPoll);
}

void after_fork() { forking = false; }

void in_child() {
  inside = 0;
  forking = false;
}

}  // namespace

NoFork::NoFork() {
  if (!registered.exchange(true)) pthread_atfork(before_fork, after_fork, in_child);
  for (;;) {
    while (forking) std::this_thread::sleep_for(kPoll);
    ++inside;
    if (!forking) return;
    --inside;
  }
}

NoFork::~NoFork() { --inside; }

}  // namespace vesta
