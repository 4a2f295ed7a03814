#include "measured_run.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <unordered_set>

#include "base/check.h"
#include "base/stopwatch.h"
#include "runtime/executable.h"

namespace vesta::python {
namespace {

constexpr int kWarmRuns = 2;   // pack weights and record CUDA graphs
constexpr int kTimedRuns = 3;  // at least

// The bytes of the CPU that this thread allocates, as torch's profiler learns of them.
class Allocated final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*memory*/, int64_t bytes, size_t /*allocated*/, size_t /*reserved*/,
                         c10::Device device) override {
    if (!device.is_cpu()) return;
    now_ += bytes;
    most_ = std::max(most_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t now() const { return now_; }
  int64_t most() const { return most_; }

 private:
  int64_t now_ = 0, most_ = 0;
};

class Runs {
 public:
  Runs(const runtime::Executable& executable, const std::vector<at::Tensor>& tensors,
       const std::vector<int64_t>& integers)
      : executable_(executable), tensors_(tensors), integers_(integers) {
    for (const at::Tensor& t : tensors)
      if (!t.is_cpu()) gpus_.insert(t.device());
  }

  double least_us(double seconds) const {
    for (int i = 0; i < kWarmRuns; ++i) milliseconds();
    double least = std::numeric_limits<double>::infinity();
    const Stopwatch all;
    for (int runs = 0; runs < kTimedRuns || all.milliseconds() < 1e3 * seconds; ++runs)
      least = std::min(least, milliseconds());
    return 1e3 * least;
  }

  // In a thread that has no arena yet.
  void count_bytes(MeasuredRun& out) const {
    const Allocated first = run_counted(), second = run_counted();
    out.kept_bytes = first.now();
    out.most_bytes = second.most();
  }

  bool on_gpu() const { return !gpus_.empty(); }

 private:
  double milliseconds() const {
    std::vector<c10::IValue> outputs;
    std::string why;
    const Stopwatch watch;
    if (!executable_.accepts(tensors_, integers_, &why))
      throw InternalError("the compiled graph does not take the inputs that its case describes: " + why);
    executable_.run(tensors_, integers_, outputs);
    for (const c10::Device& d : gpus_) c10::impl::VirtualGuardImpl(d.type()).synchronizeDevice(d.index());
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
  std::unordered_set<c10::Device> gpus_;
};

}  // namespace

MeasuredRun measured_run(const runtime::Executable& executable, const std::vector<at::Tensor>& tensors,
                         const std::vector<int64_t>& integers, double seconds) {
  const at::NoGradGuard no_grad;
  const Runs runs(executable, tensors, integers);
  MeasuredRun out;
  out.least_us = runs.least_us(seconds);
  if (runs.on_gpu()) return out;
  executable.drop_prepacked();
  std::async(std::launch::async, [&] {
    const at::NoGradGuard none;
    runs.count_bytes(out);
  }).get();
  return out;
}

}  // namespace vesta::python
