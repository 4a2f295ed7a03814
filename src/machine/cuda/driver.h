// NVIDIA's driver, opened at run time (CUDA driver API 12.0 or later, whose library kernels belong to no context).
// Nothing of CUDA is linked. Functions throw on any failure of the driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "machine/load.h"
#include "vesta/error.h"

namespace vesta::machine {

using CudaLibrary = struct OpaqueLibrary*;
// The file names of the driver's library.
inline constexpr const char* kDriverNames[] = {"libcuda.so.1"};

using CudaKernel = struct OpaqueKernel*;  // can be launched in any current context

// The GPU has not enough memory for what the driver was asked to do.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

class Driver {
 public:
  // nullptr: this process has no driver or no GPU; `why` gets the reason. Determined once per process. Thread-safe.
  static const Driver* get(std::string* why = nullptr);

  // Reads an attribute (CUdevice_attribute) of the device with this ordinal.
  int attribute(int which, int device) const;
  int64_t memory(int device) const;    // bytes
  int architecture(int device) const;  // 90 for compute capability 9.0
  // Makes the device's primary context the calling thread's, unless it has a context. PyTorch's runtime sets none for a
  // thread that uses the first device.
  void need_context(int device) const;
  // `code`: a cubin, or PTX that ends with a zero byte.
  CudaLibrary load(const void* code) const;
  // Waits for the device, which breaks a capture of the calling thread.
  void unload(CudaLibrary library) const noexcept;
  CudaKernel kernel(CudaLibrary library, const std::string& symbol) const;  // valid until the library is unloaded
  // The device of the current context.
  int current_device() const;
  // Lets launches of the kernel use up to this many bytes of shared memory per block.
  void allow_shared(CudaKernel kernel, unsigned bytes, int device) const;
  // Launches in the current context. `arguments`: a pointer to the value of each parameter. `early`: the kernel may
  // start before those that precede it on the stream have ended, because it waits for them by itself (programmatic
  // dependent launch; cuda.h, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION). Drivers that refuse this launch
  // it after them.
  void launch(CudaKernel kernel, const LaunchShape& shape, void* stream, void** arguments, bool early) const;
  // Throws OutOfMemory or InternalError unless `status`, the result of a driver function, is success.
  void require(int status, const char* what) const;

 private:
  struct Functions;
  explicit Driver(const Functions* functions) : f_(functions) {}
  const Functions* f_;
};

}  // namespace vesta::machine
