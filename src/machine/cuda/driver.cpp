#include "machine/cuda/driver.h"

#include <fmt/format.h>

#include <atomic>

#include "base/check.h"
#include "machine/cuda/shared_library.h"

namespace vesta::machine {

namespace {

constexpr int kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY

// CUlaunchAttribute of cuda.h.
struct LaunchAttribute {
  int id = 6;  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
  int padding = 0;
  int value = 1;
  char rest[60] = {};
};

// CUlaunchConfig of cuda.h.
struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};

}  // namespace

// The part of cuda.h that Vesta uses. Every function returns 0 for success.
struct Driver::Functions {
  int (*init)(unsigned flags) = nullptr;
  int (*device_count)(int* count) = nullptr;
  int (*attribute)(int* value, int which, int device) = nullptr;
  int (*current)(void** context) = nullptr;
  int (*make_current)(void* context) = nullptr;
  int (*primary)(void** context, int device) = nullptr;
  int (*load)(CudaLibrary*, const void* code, int* jit_options, void** jit_values, unsigned jit_count, int* options,
              void** values, unsigned count) = nullptr;
  int (*unload)(CudaLibrary) = nullptr;
  int (*kernel)(CudaKernel*, CudaLibrary, const char* name) = nullptr;
  int (*launch)(CudaKernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                unsigned block_z, unsigned shared_bytes, void* stream, void** arguments, void** extra) = nullptr;
  int (*launch_with)(const LaunchConfig*, CudaKernel, void** arguments, void** extra) = nullptr;
  int (*current_device)(int* device) = nullptr;
  int (*set_attribute)(int which, int value, CudaKernel, int device) = nullptr;
  int (*memory)(size_t* bytes, int device) = nullptr;
  int (*error)(int status, const char** text) = nullptr;
};

const Driver* Driver::get(std::string* why) {
  static std::string problem;
  static const Driver* const driver = [&]() -> const Driver* {
    void* library = open_library(kDriverNames, {}, &problem);
    if (!library) return nullptr;
    auto* f = new Functions;
    Symbols symbols(library);
    symbols.find(f->init, "cuInit");
    symbols.find(f->device_count, "cuDeviceGetCount");
    symbols.find(f->attribute, "cuDeviceGetAttribute");
    symbols.find(f->current, "cuCtxGetCurrent");
    symbols.find(f->make_current, "cuCtxSetCurrent");
    symbols.find(f->primary, "cuDevicePrimaryCtxRetain");
    symbols.find(f->load, "cuLibraryLoadData");
    symbols.find(f->unload, "cuLibraryUnload");
    symbols.find(f->kernel, "cuLibraryGetKernel");
    symbols.find(f->launch, "cuLaunchKernel");
    symbols.find(f->launch_with, "cuLaunchKernelEx");
    symbols.find(f->current_device, "cuCtxGetDevice");
    symbols.find(f->set_attribute, "cuKernelSetAttribute");
    symbols.find(f->memory, "cuDeviceTotalMem_v2");
    symbols.find(f->error, "cuGetErrorString");
    if (!symbols.missing().empty()) {
      problem = fmt::format("the driver has no {}: it is older than CUDA 12", symbols.missing());
      return nullptr;
    }
    int count = 0;
    if (f->init(0) != 0 || f->device_count(&count) != 0 || count == 0) {
      problem = "the driver finds no GPU";
      return nullptr;
    }
    return new Driver(f);
  }();
  if (!driver && why) *why = problem;
  return driver;
}

void Driver::require(int status, const char* what) const {
  if (status == 0) return;
  const char* text = nullptr;
  f_->error(status, &text);
  if (status == kOutOfMemory) throw OutOfMemory(fmt::format("the CUDA driver {}: out of memory", what));
  VESTA_CHECK(false, "the CUDA driver {}: {} ({})", what, text ? text : "an unknown error", status);
}

int Driver::attribute(int which, int device) const {
  int value = 0;
  require(f_->attribute(&value, which, device), "tells nothing of the device");
  return value;
}

int64_t Driver::memory(int device) const {
  size_t bytes = 0;
  require(f_->memory(&bytes, device), "tells nothing of the device");
  return static_cast<int64_t>(bytes);
}

int Driver::architecture(int device) const {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
  return 10 * attribute(kMajor, device) + attribute(kMinor, device);
}

void Driver::need_context(int device) const {
  void* context = nullptr;
  require(f_->current(&context), "has no context");
  if (context) return;
  require(f_->primary(&context, device), "makes no context");
  require(f_->make_current(context), "sets no context");
}

CudaLibrary Driver::load(const void* code) const {
  CudaLibrary library = nullptr;
  require(f_->load(&library, code, nullptr, nullptr, 0, nullptr, nullptr, 0), "does not load a kernel");
  return library;
}

void Driver::unload(CudaLibrary library) const noexcept { f_->unload(library); }

CudaKernel Driver::kernel(CudaLibrary library, const std::string& symbol) const {
  CudaKernel kernel = nullptr;
  require(f_->kernel(&kernel, library, symbol.c_str()), "finds no kernel in its code");
  return kernel;
}

int Driver::current_device() const {
  int device = 0;
  require(f_->current_device(&device), "has no current device");
  return device;
}

void Driver::allow_shared(CudaKernel kernel, unsigned bytes, int device) const {
  constexpr int kMostSharedBytes = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  require(f_->set_attribute(kMostSharedBytes, static_cast<int>(bytes), kernel, device),
          "does not give a kernel its shared memory");
}

void Driver::launch(CudaKernel kernel, const LaunchShape& shape, void* stream, void** arguments, bool early) const {
  static std::atomic<bool> refused{false};
  if (early && !refused.load(std::memory_order_relaxed)) {
    const LaunchAttribute attribute;
    const LaunchConfig config{{shape.blocks, 1, 1}, {shape.threads, 1, 1}, shape.shared, stream, &attribute, 1};
    const int status = f_->launch_with(&config, kernel, arguments, nullptr);
    if (status == 0 || status == kOutOfMemory) return require(status, "does not launch a kernel");
    refused = true;
  }
  require(f_->launch(kernel, shape.blocks, 1, 1, shape.threads, 1, 1, shape.shared, stream, arguments, nullptr),
          "does not launch a kernel");
}

}  // namespace vesta::machine
