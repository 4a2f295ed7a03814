// Launches of kernels as ranges of PyTorch's profiler. An entry point that knows that the profiler is on says so here,
// because a run that asked the profiler itself would lose 20 ns.
#pragma once

#include <atomic>

namespace vesta::runtime {

// Runs that begin while such an object exists give the profiler a range for each launch.
class ProfiledLaunches {
 public:
  ProfiledLaunches() { count.fetch_add(1, std::memory_order_relaxed); }
  ~ProfiledLaunches() { count.fetch_sub(1, std::memory_order_relaxed); }
  ProfiledLaunches(const ProfiledLaunches&) = delete;
  static bool any() { return count.load(std::memory_order_relaxed) > 0; }

 private:
  static std::atomic<int> count;
};

}  // namespace vesta::runtime
