// Lets one thread tell another that its work is not wanted any more. Long work asks at places where it can stop.
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

 private:
  std::atomic<bool> cancelled_{false};
};

}  // namespace vesta
