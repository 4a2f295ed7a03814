#include "machine/cuda/meter.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "machine/cuda/driver_table.h"
#include "machine/cuda/graph.h"

namespace vesta::machine {
namespace {

constexpr int64_t kAlignment = 256;
constexpr int64_t kFewestLaunches = 8, kMostLaunches = 64;  // of a kernel, in one graph
constexpr double kGraphMicroseconds = 200;                  // duration that one graph should have
constexpr int kRounds = 6;

// The part of cuda.h that Vesta uses. Every function returns 0 for success.
struct Functions {
  int (*free_memory)(size_t* free, size_t* total) = nullptr;
  int (*allocate)(uint64_t* address, size_t bytes) = nullptr;
  int (*release)(uint64_t address) = nullptr;
  int (*fill)(uint64_t address, unsigned char value, size_t bytes, void* stream) = nullptr;
  int (*make_event)(void** event, unsigned flags) = nullptr;
  int (*free_event)(void* event) = nullptr;
  int (*record)(void* event, void* stream) = nullptr;
  int (*wait)(void* event) = nullptr;
  int (*elapsed)(float* milliseconds, void* from, void* to) = nullptr;
};

const DriverTable<Functions>& table() {
  static const auto& found = driver_table<Functions>([](Symbols& symbols, Functions& f) {
    symbols.find(f.free_memory, "cuMemGetInfo_v2");
    symbols.find(f.allocate, "cuMemAlloc_v2");
    symbols.find(f.release, "cuMemFree_v2");
    symbols.find(f.fill, "cuMemsetD8Async");
    symbols.find(f.make_event, "cuEventCreate");
    symbols.find(f.free_event, "cuEventDestroy_v2");
    symbols.find(f.record, "cuEventRecord");
    symbols.find(f.wait, "cuEventSynchronize");
    symbols.find(f.elapsed, "cuEventElapsedTime");
  });
  return found;
}

const Functions& functions() {
  if (!table().driver) VESTA_UNSUPPORTED("kernels cannot be measured: {}", table().problem);
  return table().f;
}

void require(int status, const char* what) { table().require(status, what); }

class Event {
 public:
  Event() { require(functions().make_event(&event_, 0), "makes no event"); }
  ~Event() { functions().free_event(event_); }
  Event(const Event&) = delete;
  void record(void* stream) { require(functions().record(event_, stream), "records no event"); }
  void wait() { require(functions().wait(event_), "does not wait for an event"); }
  double microseconds_since(const Event& from) const {
    float ms = 0;
    require(functions().elapsed(&ms, from.event_, event_), "does not time events");
    return 1000.0 * ms;
  }

 private:
  void* event_ = nullptr;
};

class DriverMeter final : public Meter {
 public:
  DriverMeter(int device, int64_t cache_bytes)
      : device_(device), cache_bytes_(cache_bytes), f_(functions()), stream_(make_capture_stream()) {}
  ~DriverMeter() override { release(); }

  std::optional<std::vector<double>> measure(const Trial& trial, std::span<const TimedKernel> kernels) override {
    const int64_t bytes = std::max<int64_t>(1, (trial.bytes + kAlignment - 1) / kAlignment) * kAlignment;
    const int64_t launches = std::clamp(static_cast<int64_t>(kGraphMicroseconds / std::max(1.0, trial.about_us)),
                                        kFewestLaunches, kMostLaunches);
    // Enough copies that the cache no longer holds one when its turn comes again.
    int64_t copies = std::clamp<int64_t>(2 * cache_bytes_ / bytes + 1, 1, launches);
    if (!reserve(bytes * copies)) copies = bytes_ / bytes;
    if (copies == 0) return std::nullopt;
    require(f_.fill(memory_, 0, static_cast<size_t>(bytes * copies), stream_->native()), "does not fill memory");
    std::vector<std::unique_ptr<DeviceGraph>> graphs;
    for (const TimedKernel& k : kernels) graphs.push_back(graph_of(trial, k, launches, bytes, copies));
    std::vector<double> best(kernels.size(), std::numeric_limits<double>::infinity());
    Event begin, end;
    for (int round = 0; round <= kRounds; ++round)
      for (size_t i = 0; i < graphs.size(); ++i) {
        if (!graphs[i]) continue;
        begin.record(stream_->native());
        graphs[i]->launch(stream_->native());
        end.record(stream_->native());
        end.wait();
        // The first launch of a graph uploads it and is not counted.
        if (round > 0) best[i] = std::min(best[i], end.microseconds_since(begin) / static_cast<double>(launches));
      }
    return best;
  }

 private:
  // A graph of `launches` launches, one after another. nullptr: the driver refuses to launch the kernel.
  std::unique_ptr<DeviceGraph> graph_of(const Trial& trial, const TimedKernel& k, int64_t launches, int64_t bytes,
                                        int64_t copies) {
    stream_->begin();
    try {
      const std::shared_ptr<const DeviceKernel> kernel = load_on_device(*k.object, device_);
      for (int64_t n = 0; n < launches; ++n) {
        const uint64_t start = memory_ + static_cast<uint64_t>(n % copies * bytes);
        std::vector<uint64_t> pointers;
        std::vector<int64_t> numbers = trial.sizes;
        numbers.push_back(k.items);
        std::vector<void*> arguments;
        for (const Trial::Buffer& b : trial.buffers)
          pointers.push_back(b.value ? 0 : start + static_cast<uint64_t>(b.start));
        for (uint64_t& p : pointers) arguments.push_back(&p);
        for (int64_t& x : numbers) arguments.push_back(&x);
        kernel->launch(k.shape, stream_->native(), arguments.data(), false);
      }
    } catch (const InternalError&) {
      stream_->abandon();
      return nullptr;
    }
    return stream_->end();
  }

  // Whether `bytes` could be allocated. If not, memory_ is as large as possible.
  bool reserve(int64_t bytes) {
    if (bytes <= bytes_) return true;
    release();
    size_t free = 0, total = 0;
    require(f_.free_memory(&free, &total), "tells nothing of its memory");
    const int64_t most = std::min(bytes, static_cast<int64_t>(free / 2) / kAlignment * kAlignment);
    if (most > 0 && f_.allocate(&memory_, static_cast<size_t>(most)) == 0) bytes_ = most;
    return bytes_ == bytes;
  }
  void release() {
    if (bytes_ > 0) f_.release(memory_);
    bytes_ = 0;
  }

  const RelaxedThread relaxed_;
  const int device_;
  const int64_t cache_bytes_;
  const Functions& f_;
  const std::unique_ptr<CaptureStream> stream_;
  uint64_t memory_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace

std::unique_ptr<Meter> make_meter(int device, int64_t cache_bytes) {
  prepare_thread(device);
  return std::make_unique<DriverMeter>(device, cache_bytes);
}

}  // namespace vesta::machine
