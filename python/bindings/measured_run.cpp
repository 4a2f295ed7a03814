#include "measured_run.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <future>
#include <limits>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/stopwatch.h"
#include "runtime/executable.h"

namespace vesta::python {
namespace {

constexpr int kWarmRuns = 2;   // they are not timed: the first one packs the weights
constexpr int kTimedRuns = 3;  // at least this many

// Counts the bytes that this thread allocates. PyTorch's allocators report them to it as to PyTorch's profiler.
class Allocated final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*memory*/, int64_t bytes, size_t /*allocated*/, size_t /*reserved*/,
                         c10::Device /*device*/) override {
    now_ += bytes;
    most_ = std::max(most_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t now() const { return now_; }
  int64_t most() const { return most_; }

 private:
  int64_t now_ = 0, most_ = 0;
};

// Milliseconds of waiting between two runs. A program works between its calls, too, and meanwhile threads of the
// runtime may go to sleep.
constexpr double kRest = 0.03;

class Runs {
 public:
  Runs(const runtime::Executable& executable, const std::vector<at::Tensor>& tensors,
       const std::vector<int64_t>& integers)
      : executable_(executable), tensors_(tensors), integers_(integers) {}

  double least_us(double seconds) const {
    for (int i = 0; i < kWarmRuns; ++i) milliseconds();
    double least = std::numeric_limits<double>::infinity();
    const Stopwatch all;
    for (int runs = 0; runs < kTimedRuns || all.milliseconds() < 1e3 * seconds; ++runs) {
      for (const Stopwatch rest; rest.milliseconds() < kRest;) {
      }
      least = std::min(least, milliseconds());
    }
    return 1e3 * least;
  }

  // The calling thread must not have an arena yet.
  void count_bytes(MeasuredRun& out) const {
    const Allocated first = run_counted(), second = run_counted();
    out.kept_bytes = first.now();
    out.most_bytes = second.most();
  }

 private:
  double milliseconds() const {
    std::vector<c10::IValue> outputs;
    const Stopwatch watch;
    checked_run(executable_, tensors_, integers_, outputs);
    return watch.milliseconds();
  }

  Allocated run_counted() const {
    const auto allocated = std::make_shared<Allocated>();
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, allocated);
    milliseconds();
    return *allocated;
  }

  const runtime::Executable& executable_;
  const std::vector<at::Tensor>& tensors_;
  const std::vector<int64_t>& integers_;
};

}  // namespace

void checked_run(const runtime::Executable& executable, const std::vector<at::Tensor>& tensors,
                 const std::vector<int64_t>& integers, std::vector<c10::IValue>& outputs) {
  std::string why;
  if (!executable.accepts(tensors, integers, &why))
    throw InternalError("the compiled graph does not take the inputs that its case describes: " + why);
  executable.run(tensors, integers, outputs);
}

MeasuredRun measured_run(const runtime::Executable& executable, const std::vector<at::Tensor>& tensors,
                         const std::vector<int64_t>& integers, double seconds) {
  const at::NoGradGuard no_grad;
  const Runs runs(executable, tensors, integers);
  MeasuredRun out;
  out.least_us = runs.least_us(seconds);
  executable.drop_prepacked();
  std::async(std::launch::async, [&] {
    const at::NoGradGuard none;
    runs.count_bytes(out);
  }).get();
  return out;
}

}  // namespace vesta::python
