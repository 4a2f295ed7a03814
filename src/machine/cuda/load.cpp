#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/target.h"
#include "base/totals.h"
#include "machine/cuda/code.h"
#include "machine/cuda/driver.h"
#include "machine/cuda/retired.h"
#include "machine/load.h"

namespace vesta::machine {
namespace {

class Loaded final : public DeviceKernel {
 public:
  Loaded(const Driver& driver, std::string_view code, const std::string& symbol, bool waits)
      : driver_(driver),
        library_(driver.load(code.data()), [&driver](CudaLibrary library) { driver.unload(library); }),
        kernel_(driver.kernel(library_.get(), symbol)),
        waits_(waits),
        held_(totals::Memory::Code, static_cast<int64_t>(code.size())) {}
  ~Loaded() override { retire(std::move(library_)); }

  void launch(const LaunchShape& shape, void* stream, void** arguments, bool early) const override {
    if (shape.shared > kGivenShared) allow(shape.shared);
    driver_.launch(kernel_, shape, stream, arguments, early && waits_);
  }

  void* native() const override { return kernel_; }
  bool waits() const override { return waits_; }

 private:
  // Together with what the code declares, a block gets 48 KiB. A kernel that needs more must be allowed it, on each
  // device.
  static constexpr unsigned kGivenShared = (48 << 10) - kOwnShared;

  void allow(unsigned bytes) const {
    const int device = driver_.current_device();
    const uint64_t bit = uint64_t{1} << (device % 64);
    if (allowed_.load(std::memory_order_relaxed) & bit) return;
    driver_.allow_shared(kernel_, bytes, device);
    allowed_.fetch_or(bit, std::memory_order_relaxed);
  }

  mutable std::atomic<uint64_t> allowed_{0};  // one bit per device
  const Driver& driver_;
  std::shared_ptr<std::remove_pointer_t<CudaLibrary>> library_;
  const CudaKernel kernel_;
  const bool waits_;
  const totals::KeptBytes held_;
};

}  // namespace

std::shared_ptr<const DeviceKernel> load_on_device(const Object& object, int device) {
  VESTA_CHECK(object.form == Form::Cuda, "{} is not code for a GPU", object.symbol);
  std::string why;
  const Driver* const driver = Driver::get(&why);
  if (!driver) VESTA_UNSUPPORTED("code for a GPU cannot be loaded: {}", why);
  const CudaCode code = read_cuda_code(object.bytes, false);
  const bool finished = runs_on(code, driver->architecture(device));
  static std::mutex mutex;
  static auto* known = new std::map<std::pair<std::string, bool>, std::weak_ptr<const DeviceKernel>>;
  const std::lock_guard lock(mutex);
  std::weak_ptr<const DeviceKernel>& before = (*known)[{object.symbol, finished}];
  if (std::shared_ptr<const DeviceKernel> kernel = before.lock()) return kernel;
  const CudaCode whole = read_cuda_code(object.bytes, !finished);
  const auto kernel = std::make_shared<Loaded>(*driver, finished ? whole.cubin : whole.ptx, object.symbol, whole.waits);
  before = kernel;
  return kernel;
}

void prepare_thread(int device) {
  if (const Driver* const driver = Driver::get()) driver->need_context(device);
}

}  // namespace vesta::machine
