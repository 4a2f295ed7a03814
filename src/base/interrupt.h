// Waits that a user can end, with Ctrl-C for example. What runs the user's program says when: Python sets a function
// that looks for signals. In a C++ program nothing does, and a wait goes on until its end.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace vesta::interrupt {

// Whether the calling thread has to stop waiting, because the program is going to handle a signal on it. It is asked
// often, from any thread, while locks are held.
using Asked = bool (*)();
void set(Asked asked);
bool asked();

// As condition_variable::wait_until, but it also returns false when asked() says so.
template <class Done>
bool wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                std::chrono::steady_clock::time_point end, Done done) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kOften{20};
  while (true) {
    const Clock::time_point next = std::min(end, Clock::now() + kOften);
    if (changed.wait_until(lock, next, done)) return true;
    if (Clock::now() >= end || asked()) return false;
  }
}

}  // namespace vesta::interrupt
