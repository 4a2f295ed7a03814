// Loads kernels' code into this process. Needs no code generator. Checks an object before any of its code can run.
#pragma once

#include <cstddef>
#include <memory>

#include "machine/object.h"

namespace vesta::machine {

// Runs the work items [begin, end). `buffers`: one pointer per kernel buffer, offsets applied; `sizes`: the values of
// Kernel::sizes; `scratch`: scratch_bytes(k) bytes of this thread, 64-byte aligned.
using KernelFn = void (*)(void* const* buffers, const int64_t* sizes, void* scratch, int64_t begin, int64_t end);

// Executable, read-only code in memory. It is unmapped when its last owner releases it.
class Code {
 public:
  virtual ~Code() = default;
  virtual KernelFn entry() const = 0;  // valid as long as this object
  virtual size_t bytes() const = 0;    // of memory
};

// The blocks of a launch, the threads of a block, and a block's shared memory in bytes beyond what the code declares.
struct LaunchShape {
  unsigned blocks, threads, shared;
};

// A GPU kernel, valid in all contexts of the process. Its code is unloaded some time after its last owner has released
// it (cuda/retired.h); graphs that launch it are no owners.
class DeviceKernel {
 public:
  virtual ~DeviceKernel() = default;
  // Launches in the current context on `stream`. `arguments`: pointers to the parameters' values, which are a pointer
  // for each buffer (or the number itself, for KernelBuffer::value), the values of Kernel::sizes, and the number of
  // work items. `early`: a kernel that waits() may start before those in front of it have ended.
  virtual void launch(const LaunchShape& shape, void* stream, void** arguments, bool early) const = 0;
  virtual void* native() const = 0;  // CUkernel
  // Whether its threads wait by themselves, before they touch memory, until the preceding kernels have ended and their
  // results are visible. Such a kernel may be started earlier (programmatic dependent launch).
  virtual bool waits() const = 0;
};
// For the device with this index. Throws Unsupported if the process has no driver for it.
std::shared_ptr<const DeviceKernel> load_on_device(const Object& object, int device);
// Each thread calls this before its first launch on the device with this index.
void prepare_thread(int device);

// One Code per symbol exists while it has an owner. Thread-safe. Throws InternalError if the object is malformed, is
// for another machine, or calls a function that this process does not have (imports.h).
std::shared_ptr<const Code> load(const Object& object);
// Loads kernels that are text. Only tests have such kernels, and set it.
inline std::shared_ptr<const Code> (*load_text)(const Object& object) = nullptr;

}  // namespace vesta::machine
