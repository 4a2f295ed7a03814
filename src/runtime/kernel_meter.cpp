#include "runtime/kernel_meter.h"

#include <algorithm>
#include <limits>
#include <new>

#include "base/stopwatch.h"
#include "runtime/parallel.h"
#include "runtime/workspace.h"

namespace vesta::runtime {
namespace {

constexpr int64_t kAlignment = 64;
constexpr double kRoundMicroseconds = 300;  // that the launches of a kernel in one round should take
constexpr int64_t kFewestLaunches = 2, kMostLaunches = 64;
constexpr int kRounds = 8;

class KernelMeter final : public machine::Meter {
 public:
  explicit KernelMeter(int64_t cache_bytes) : cache_bytes_(cache_bytes) {}

  std::optional<std::vector<double>> measure(const machine::Trial& trial,
                                             std::span<const machine::TimedKernel> kernels) override {
    const int64_t bytes = std::max<int64_t>(1, (trial.bytes + kAlignment - 1) / kAlignment) * kAlignment;
    const auto launches = std::clamp(static_cast<int64_t>(kRoundMicroseconds / std::max(1.0, trial.about_us)),
                                     kFewestLaunches, kMostLaunches);
    // A call of the program finds what kernels before have left in the caches, but hardly ever a weight.
    const int64_t copies = std::clamp<int64_t>(2 * cache_bytes_ / bytes + 1, 1, launches);
    if (!reserve(bytes * copies)) return std::nullopt;
    std::fill_n(memory_.get(), bytes * copies, std::byte{0});
    std::vector<std::shared_ptr<const machine::Code>> code;
    for (const machine::TimedKernel& k : kernels) code.push_back(machine::load(*k.object));
    std::vector<double> best(kernels.size(), std::numeric_limits<double>::infinity());
    for (int round = 0; round <= kRounds; ++round)
      for (size_t i = 0; i < kernels.size(); ++i) {
        const Stopwatch watch;
        for (int64_t n = 0; n < launches; ++n) launch(trial, kernels[i], *code[i], n % copies * bytes);
        // The first round fills the caches.
        if (round > 0) best[i] = std::min(best[i], 1000 * watch.milliseconds() / static_cast<double>(launches));
      }
    return best;
  }

 private:
  // `copy`: where the weights of this launch are.
  void launch(const machine::Trial& trial, const machine::TimedKernel& k, const machine::Code& code, int64_t copy) {
    std::byte* const memory = memory_.get();
    std::vector<void*> pointers;
    for (const machine::Trial::Buffer& b : trial.buffers)
      pointers.push_back(memory + b.start + (b.constant ? copy : 0));
    const int64_t grain = parallel_grain(k.items, k.item_ns);
    if (grain > 0) {
      run_parallel(code.entry(), pointers.data(), trial.sizes.data(), k.scratch, k.items, grain);
    } else {
      code.entry()(pointers.data(), trial.sizes.data(), k.scratch > 0 ? thread_scratch(k.scratch) : nullptr, 0,
                   k.items);
    }
  }

  bool reserve(int64_t bytes) {
    if (bytes <= bytes_) return true;
    memory_.reset();
    bytes_ = 0;
    memory_.reset(static_cast<std::byte*>(
        ::operator new(static_cast<size_t>(bytes), std::align_val_t{kAlignment}, std::nothrow)));
    if (memory_) bytes_ = bytes;
    return bytes_ == bytes;
  }

  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t{kAlignment}); }
  };
  const int64_t cache_bytes_;
  std::unique_ptr<std::byte, Free> memory_;
  int64_t bytes_ = 0;
};

}  // namespace

std::unique_ptr<machine::Meter> make_kernel_meter(int64_t cache_bytes) {
  return std::make_unique<KernelMeter>(cache_bytes);
}

}  // namespace vesta::runtime
