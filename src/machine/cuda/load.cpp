#include <mutex>
#include <unordered_map>

#include "base/check.h"
#include "machine/cuda/driver.h"
#include "machine/load.h"

namespace vesta::machine {
namespace {

class Loaded final : public DeviceKernel {
 public:
  Loaded(const Driver& driver, const Object& object)
      : driver_(driver), kernel_(driver.load(object.bytes.c_str(), object.symbol)) {}

  void launch(unsigned blocks, unsigned threads, void* stream, void** arguments) const override {
    driver_.launch(kernel_, blocks, threads, stream, arguments);
  }

 private:
  const Driver& driver_;
  const CudaKernel kernel_;
};

}  // namespace

std::shared_ptr<const DeviceKernel> load_on_device(const Object& object) {
  VESTA_CHECK(object.form == Form::Cuda, "{} is no code for a GPU", object.symbol);
  std::string why;
  const Driver* const driver = Driver::get(&why);
  if (!driver) VESTA_UNSUPPORTED("code for a GPU: {}", why);
  static std::mutex mutex;
  static auto* known = new std::unordered_map<std::string, std::shared_ptr<const DeviceKernel>>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const DeviceKernel>& kernel = (*known)[object.symbol];
  if (!kernel) kernel = std::make_shared<Loaded>(*driver, object);
  return kernel;
}

void prepare_thread(int device) {
  if (const Driver* const driver = Driver::get()) driver->need_context(device);
}

}  // namespace vesta::machine
