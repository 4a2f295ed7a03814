// NVIDIA's driver, found at run time (CUDA driver API, 12.0 and later: kernels of a library belong to no context).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "machine/load.h"
#include "vesta/error.h"

namespace vesta::machine {

using CudaLibrary = struct OpaqueLibrary*;
// The names of the library that is the driver.
inline constexpr const char* kDriverNames[] = {"libcuda.so.1"};

using CudaKernel = struct OpaqueKernel*;  // launched in whatever context is current

// The GPU's memory does not suffice for what the driver was to do.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

class Driver {
 public:
  // nullptr: this process has no driver, or no GPU, for the reason `why`. Once per process; thread-safe.
  static const Driver* get(std::string* why = nullptr);

  // Reads an attribute (CUdevice_attribute) of the device with this ordinal.
  int attribute(int which, int device) const;
  int64_t memory(int device) const;    // bytes
  int architecture(int device) const;  // 90 of compute capability 9.0
  // Makes the primary context of a device the calling thread's, unless it has one already: PyTorch's runtime leaves a
  // thread that uses the first device without.
  void need_context(int device) const;
  // `code`: a cubin, or PTX that ends with a zero byte. Stays loaded as long as the process: to unload it would wait
  // for the device and break a capture.
  CudaKernel load(const void* code, const std::string& symbol) const;
  // That of the current context.
  int current_device() const;
  // Blocks of the kernel may take so many bytes of shared memory at a launch.
  void allow_shared(CudaKernel kernel, unsigned bytes, int device) const;
  // `arguments`: a pointer to the value of each parameter. In the current context.
  void launch(CudaKernel kernel, const LaunchShape& shape, void* stream, void** arguments) const;
  // Throws OutOfMemory or InternalError unless `status`, which a function of the driver has returned, is success.
  void require(int status, const char* what) const;

 private:
  struct Functions;
  explicit Driver(const Functions* functions) : f_(functions) {}
  const Functions* f_;
};

}  // namespace vesta::machine
