#include "machine/cuda/device_target.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "base/check.h"
#include "machine/cuda/driver.h"

namespace vesta::machine {
namespace {

// CUdevice_attribute, of cuda.h.
constexpr int kMultiprocessors = 16, kMemoryClock = 36, kBusWidth = 37, kL2Bytes = 38, kSharedBytes = 97;

Target describe(const Driver& driver, int device) {
  Target t = cuda_target_of(driver.architecture(device));
  t.threads = driver.attribute(kMultiprocessors, device);
  t.l1_bytes = driver.attribute(kSharedBytes, device);
  t.l2_bytes = driver.attribute(kL2Bytes, device);
  // The memory transfers data twice per clock cycle. The clock rate is in kHz, the width of the bus in bits.
  const double speed = 2.0 * driver.attribute(kMemoryClock, device) * driver.attribute(kBusWidth, device) / 8 / 1e6;
  if (speed > 0) t.memory_bytes_per_ns = speed;
  return t;
}

}  // namespace

Target cuda_target_of(int arch) {
  Target t;
  t.device = DeviceType::CUDA;
  t.triple = "nvptx64-nvidia-cuda";
  t.cpu = fmt::format("sm_{}", arch);
  t.features = "";
  t.half_convert = t.fma = true;
  t.threads = 108;  // multiprocessors
  t.l1_bytes = 160 << 10;
  t.l2_bytes = 40 << 20;
  t.l3_bytes = 0;
  t.memory_bytes_per_ns = 2000;
  t.cache_bytes_per_ns = 5000;
  return t;
}

const Target* cuda_target(int device, std::string* why) {
  const Driver* const driver = Driver::get(why);
  if (!driver) return nullptr;
  static std::mutex mutex;
  static auto* known = new std::map<int, Target>;
  const std::lock_guard lock(mutex);
  auto it = known->find(device);
  if (it == known->end()) {
    try {
      it = known->emplace(device, describe(*driver, device)).first;
    } catch (const InternalError& e) {
      if (why) *why = e.what();
      return nullptr;
    }
  }
  return &it->second;
}

}  // namespace vesta::machine
