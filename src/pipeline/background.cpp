#include "pipeline/background.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/at_fork.h"
#include "base/events.h"
#include "base/interrupt.h"
#include "base/stopwatch.h"
#include "graph/device.h"
#include "machine/cuda/graph.h"
#include "machine/load.h"

namespace vesta::pipeline {

namespace {

// How long a process that exits waits for its compiles. They are asked to stop first.
constexpr std::chrono::seconds kExitWait{2};

constexpr int kLowPriority = 10;  // a nice value; 0 is usual and 19 the lowest priority

void lower_priority(int thread) {
  const auto id = static_cast<id_t>(thread);
  if (getpriority(PRIO_PROCESS, id) < kLowPriority) setpriority(PRIO_PROCESS, id, kLowPriority);
}

std::atomic<int64_t> forks{0};  // between the first process and this one

}  // namespace

// The threads that compile, and the compiles that they run.
class CompileThreads {
 public:
  void start(std::shared_ptr<Background> compile, bool awaited) {
    const std::lock_guard lock(mutex_);
    if (is_ending_) compile->cancel_.cancel();  // a compile that is not yet cancelled itself has started it
    running_.insert(compile.get());
    Lane& lane = awaited ? awaited_ : background_;
    lane.queue.push_back(std::move(compile));
    if (lane.idle >= lane.queue.size()) {
      lane.wake.notify_one();
    } else {
      std::thread([this, &lane] { serve(lane); }).detach();
    }
  }
  void cancel_all() {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    for (Background* b : running_) b->cancel_.cancel();
  }
  bool wait_for_all(Background::Clock::time_point end) {
    std::unique_lock lock(mutex_);
    return interrupt::wait_until(ended_, lock, end, [&] { return running_.empty(); });
  }

  static CompileThreads& current() { return *place(); }

 private:
  // Threads of one priority.
  struct Lane {
    std::condition_variable wake;
    std::vector<std::shared_ptr<Background>> queue;
    size_t idle = 0;
  };

  void serve(Lane& first) {
    pthread_setname_np(pthread_self(), "vesta compile");
    Lane* lane = &first;
    std::unique_lock lock(mutex_);
    for (;;) {
      ++lane->idle;
      lane->wake.wait(lock, [&] { return !lane->queue.empty(); });
      --lane->idle;
      const std::shared_ptr<Background> compile = std::move(lane->queue.back());
      lane->queue.pop_back();
      lock.unlock();
      const bool lowered = compile->run();
      lock.lock();
      running_.erase(compile.get());
      if (running_.empty()) ended_.notify_all();
      if (!lowered) continue;
      if (lane == &awaited_ && background_.idle > 0) return;  // one such thread is enough
      lane = &background_;
    }
  }

  static std::atomic<CompileThreads*>& place() {
    static auto* p = [] {
      auto* made = new std::atomic<CompileThreads*>(new CompileThreads);
      // A thread must not be inside of LLVM while its static objects are destroyed.
      std::atexit([] {
        current().cancel_all();
        current().wait_for_all(Background::Clock::now() + kExitWait);
      });
      return made;
    }();
    return *p;
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  Lane awaited_, background_;
  std::set<Background*> running_;  // with those in the queues
  bool is_ending_ = false;         // the process exits
  static const AtFork at_fork_;
};

// Compiles go on during a fork. Each stage sees to its own locks.
const AtFork CompileThreads::at_fork_(
    ForkStage::Compiles, [] { current().mutex_.lock(); }, [] { current().mutex_.unlock(); },
    [] {
      ++forks;
      place() = new CompileThreads;
    });

Background::Background(Work work) : work_(std::move(work)), process_(forks), ids_(events::current()) {}

std::shared_ptr<Background> Background::start(Work work, bool awaited) {
  std::shared_ptr<Background> out(new Background(std::move(work)));
  if (!awaited) out->lower();
  CompileThreads::current().start(out, awaited);
  return out;
}

std::shared_ptr<Background> Background::finished(Work work) {
  std::shared_ptr<Background> out(new Background(std::move(work)));
  out->run();
  return out;
}

void Background::lower() {
  cancel_.nobody_waits();
  const std::lock_guard lock(mutex_);
  is_lowered_ = true;
  if (thread_) lower_priority(thread_);
}

bool Background::run() noexcept {
  {
    const std::lock_guard lock(mutex_);
    thread_ = gettid();
    if (is_lowered_) lower_priority(thread_);
  }
  const events::Within within(ids_);
  std::optional<Result> result;
  std::exception_ptr error;
  try {
    result = work_(cancel_);
  } catch (...) {
    error = std::current_exception();
  }
  const Work done = std::move(work_);  // what it holds dies outside of the lock
  const std::lock_guard lock(mutex_);
  thread_ = 0;
  result_ = std::move(result);
  error_ = error;
  done_.store(true, std::memory_order_release);
  finished_.notify_all();
  return is_lowered_;
}

bool Background::is_lost() const { return !is_done() && process_ != forks; }

bool Background::wait_until(Clock::time_point end) const {
  if (is_done() || is_lost()) return is_done();
  std::unique_lock lock(mutex_);
  return interrupt::wait_until(finished_, lock, end, [&] { return is_done(); });
}

Result Background::take() {
  if (error_) std::rethrow_exception(error_);
  return std::move(*result_);
}

namespace {

Background::Work work_of(std::unique_ptr<graph::Graph> graph, const Options& options, Traced traced) {
  // std::function copies what it holds.
  auto shared = std::make_shared<std::pair<std::unique_ptr<graph::Graph>, Traced>>(std::move(graph), std::move(traced));
  return [shared, options](const CancelToken& cancel) {
    return compile(std::move(shared->first), options, std::move(shared->second), nullptr, &cancel);
  };
}

}  // namespace

std::shared_ptr<Background> start_awaited(Background::Work work, std::optional<Device> gpu, const Options& options) {
  Background::Work on_device = [work = std::move(work), gpu](const CancelToken& cancel) {
    std::optional<machine::RelaxedThread> relaxed;  // the program's threads may capture a graph
    if (gpu) relaxed.emplace(), machine::prepare_thread(std::max<int>(0, gpu->index));
    return work(cancel);
  };
  // A compile that measures runs on the calling thread: the program must not use the device meanwhile.
  if (options.autotune_seconds > 0) return Background::finished(std::move(on_device));
  return Background::start(std::move(on_device), !options.background);
}

std::shared_ptr<Background> start_awaited(std::unique_ptr<graph::Graph> graph, const Options& options, Traced traced) {
  const std::optional<Device> gpu = graph::first_device(*graph, DeviceType::CUDA);
  return start_awaited(work_of(std::move(graph), options, std::move(traced)), gpu, options);
}

void wait_or_lower(Background& compile, const Options& options, Background::Clock::time_point end) {
  if (!compile.is_done() && !options.background && !compile.wait_until(end)) compile.lower();
}

std::shared_ptr<Background> start_compile(std::unique_ptr<graph::Graph> graph, const Options& options, Traced traced,
                                          Background::Clock::time_point end) {
  std::shared_ptr<Background> started = start_awaited(std::move(graph), options, std::move(traced));
  wait_or_lower(*started, options, end);
  return started;
}

std::shared_ptr<Background> start_without_kernels(std::unique_ptr<graph::Graph> graph, Options options, Traced traced) {
  options.kernels = false;
  options.cache = false;  // to make it takes less time than to find it
  return Background::start(work_of(std::move(graph), options, std::move(traced)), /*awaited=*/false);
}

bool wait_for_compiles(Background::Clock::time_point end) { return CompileThreads::current().wait_for_all(end); }

}  // namespace vesta::pipeline

bool vesta::wait(double seconds) { return pipeline::wait_for_compiles(end_after(seconds)); }
