// A compile on a thread of its own. Its caller waits as long as its deadline allows, and goes on without the result
// then; the compile ends in the background. The same happens when the user interrupts the wait (base/interrupt.h).
//
// In the background a compile takes one thread, of a low priority (nice value 10), so that it takes little time from
// the program. An unprivileged process cannot raise a thread's priority again. Such a thread is only kept for compiles
// for which nobody waits from the start.
//
// Threads are kept for later compiles, because LLVM's state of a thread is costly to make. The child of a fork has none
// of the threads: compiles that ran at the fork are lost to it (is_lost), and it starts its own. At exit, running
// compiles are cancelled, and the process waits until they have stopped, which takes the time of one pass or one
// kernel.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "base/cancel.h"
#include "base/events.h"
#include "pipeline/pipeline.h"

namespace vesta::pipeline {

class Background {
 public:
  using Clock = std::chrono::steady_clock;
  using Work = std::function<Result(const CancelToken&)>;

  // `awaited`: the caller is going to wait for the result.
  static std::shared_ptr<Background> start(Work work, bool awaited = true);
  // Runs `work` on the calling thread.
  static std::shared_ptr<Background> finished(Work work);
  Background(const Background&) = delete;

  // Waits until the compile is done, `end` is reached or the user interrupts the wait. It does not wait for a compile
  // that is lost. Returns whether the compile is done.
  bool wait_until(Clock::time_point end) const;
  bool is_done() const { return done_.load(std::memory_order_acquire); }
  // Nobody waits from now on.
  void lower();
  // The compile was still running when this process was forked: it will never be done here.
  bool is_lost() const;
  // What the compile made, or throws what it threw. It must be done. Only the first call gets the result.
  Result take();

 private:
  explicit Background(Work work);
  // Returns whether the calling thread's priority was lowered.
  bool run() noexcept;

  friend class CompileThreads;
  Work work_;
  CancelToken cancel_;
  mutable std::mutex mutex_;
  mutable std::condition_variable finished_;
  int thread_ = 0;  // Linux's id of the thread that runs it, if one does
  bool is_lowered_ = false;
  std::atomic<bool> done_{false};
  const int64_t process_;  // the forks that led to the process which started it
  const events::Ids ids_;  // of what the compile is for
  std::optional<Result> result_;
  std::exception_ptr error_;
};

// Starts compile() (pipeline.h) of the graph on a thread of its own and waits for it until `end`; with
// Options::background, not at all. A compile that measures kernels (Options::autotune_seconds) runs on the calling
// thread and is done when this returns: the program must not use the device meanwhile.
std::shared_ptr<Background> start_compile(std::unique_ptr<graph::Graph> graph, const Options& options, Traced traced,
                                          Background::Clock::time_point end);

// Starts compile() of the graph on a thread of its own. The caller is going to wait for it later.
std::shared_ptr<Background> start_awaited(std::unique_ptr<graph::Graph> graph, const Options& options, Traced traced);
// The same for work that compiles more than one graph. `gpu`: on which they compute; nullopt: on none.
std::shared_ptr<Background> start_awaited(Background::Work work, std::optional<Device> gpu, const Options& options);
// Waits as start_compile() does.
void wait_or_lower(Background& compile, const Options& options, Background::Clock::time_point end);

// Starts a compile of the graph that makes calls into ATen alone (Options::kernels), on a thread of a low priority. It
// takes milliseconds, and its result serves calls until the machine code is there.
std::shared_ptr<Background> start_without_kernels(std::unique_ptr<graph::Graph> graph, Options options, Traced traced);

// Waits until no compile is running in this process, `end` is reached or the user interrupts the wait. Returns whether
// no compile is running.
bool wait_for_compiles(Background::Clock::time_point end);

}  // namespace vesta::pipeline
