#include "capture/entry/weight_packing.h"

#include <atomic>

#include "base/log.h"
#include "capture/entry/compile_time.h"
#include "pipeline/background.h"

namespace vesta::capture {
namespace {

// Weights that are packed in a millisecond. Two cores of a server pack twice as many.
constexpr double kBytesPerMs = 512 << 10;

using Clock = CompileTime::Clock;

std::atomic<FreesParameters> asked{nullptr};

bool frees_parameters() {
  const FreesParameters ask = asked.load(std::memory_order_relaxed);
  return ask && ask();
}

bool fits(int64_t bytes, Clock::time_point end) {
  if (end == Clock::time_point::max()) return true;
  const std::chrono::duration<double, std::milli> left = end - Clock::now();
  return static_cast<double>(bytes) <= left.count() * kBytesPerMs;
}

}  // namespace

void set_frees_parameters(FreesParameters ask) { asked.store(ask, std::memory_order_relaxed); }

bool WeightPacking::pack(const std::shared_ptr<const runtime::Executable>& program, const runtime::CallInputs& in,
                         int64_t bytes) {
  CompileTime time;
  const auto begin = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    if (running_ && !running_->is_lost()) {
      if (!running_->is_done()) return false;
      try {
        running_->take();
      } catch (const std::exception& e) {
        log::write(log::Topic::Fallbacks, std::string("weights were not packed in the background: ") + e.what());
        has_failed_ = true;
      }
    }
    running_ = nullptr;
    if (!has_failed_ && !fits(bytes, time.end(deadline_ms_)) && !frees_parameters()) {
      running_ = pipeline::Background::start(
          [work = runtime::Executable::packing(program, in)](const CancelToken& cancel) {
            work(cancel);
            return pipeline::Result{};
          },
          /*awaited=*/false);
      return false;
    }
  }
  program->pack(in);
  time.add_since(begin);
  return true;
}

bool WeightPacking::wait_until(Clock::time_point end) const {
  std::shared_ptr<pipeline::Background> running;
  {
    const std::lock_guard lock(mutex_);
    running = running_;
  }
  return !running || running->is_lost() || running->wait_until(end);
}

}  // namespace vesta::capture
