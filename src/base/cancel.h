// Lets one thread tell another that its work is not wanted any more, or that nobody waits for it. Long work asks at
// places where it can stop.
#pragma once

#include <atomic>
#include <stdexcept>

namespace vesta {

// What check() throws. It is no vesta::Error: no entry point reports it as a failure of a compile.
class Cancelled : public std::runtime_error {
 public:
  Cancelled() : std::runtime_error("the work was cancelled") {}
};

// Any thread may call any function.
class CancelToken {
 public:
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  void check() const {
    if (cancelled_.load(std::memory_order_relaxed)) throw Cancelled();
  }
  // Nobody waits for the work from now on: it leaves all cores but one to others.
  void nobody_waits() { awaited_.store(false, std::memory_order_relaxed); }
  bool is_awaited() const { return awaited_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> cancelled_{false}, awaited_{true};
};

}  // namespace vesta
