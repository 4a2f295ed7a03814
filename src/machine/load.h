// Kernels' code into this process. Needs no code generator.
#pragma once

#include <cstddef>
#include <memory>

#include "machine/object.h"

namespace vesta::machine {

// buffers: one pointer per kernel buffer, offsets applied; sizes: values of Kernel::sizes; scratch: scratch_bytes(k)
// bytes of this thread, 64-byte aligned; runs the work items [begin, end).
using KernelFn = void (*)(void* const* buffers, const int64_t* sizes, void* scratch, int64_t begin, int64_t end);

// Code in memory that can be executed and not written; unmapped when the last owner goes.
class Code {
 public:
  virtual ~Code() = default;
  virtual KernelFn entry() const = 0;  // valid as long as this object
  virtual size_t bytes() const = 0;    // of memory
};

// Blocks of so many threads, and each block's bytes of shared memory beside what the code says.
struct LaunchShape {
  unsigned blocks, threads, shared;
};

// A kernel of a GPU, in all contexts of the process. It stays as long as the process.
class DeviceKernel {
 public:
  virtual ~DeviceKernel() = default;
  // In the current context, on its stream. `arguments`: pointers to the values of the kernel's parameters, that is a
  // pointer of each buffer (or its element, of KernelBuffer::value), the values of Kernel::sizes and the number of work
  // items.
  virtual void launch(const LaunchShape& shape, void* stream, void** arguments) const = 0;
  virtual void* native() const = 0;  // CUkernel
  // Its threads wait by themselves until the kernels before it have ended and their results are visible, before they
  // touch memory: it may be started earlier (programmatic dependent launch).
  virtual bool waits() const = 0;
};
// For the device with this index. Throws Unsupported where the process has no driver for it.
std::shared_ptr<const DeviceKernel> load_on_device(const Object& object, int device);
// What a thread does before its first launch on the device with this index.
void prepare_thread(int device);

// One Code for each symbol while any owner lives. Thread-safe. Throws InternalError where the object is malformed, is
// for another machine or calls a function that this process does not have (imports.h).
std::shared_ptr<const Code> load(const Object& object);

}  // namespace vesta::machine
