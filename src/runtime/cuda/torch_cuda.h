// The parts of PyTorch's CUDA library that recording into CUDA graphs needs. libvesta_cuda implements them: the only
// library that is compiled against torch's CUDA headers. It is loaded when a program first runs on a GPU.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <memory>
#include <string>

namespace vesta::runtime {

// A source of the blocks that operators request from PyTorch's CUDA allocator.
class AllocationSource {
 public:
  virtual ~AllocationSource() = default;
  // A block of `bytes` > 0 on the current device. It has the alignment of PyTorch's allocator: 512 bytes.
  virtual void* take(size_t bytes) = 0;
  // Takes back a block of take(), on any thread, at any time.
  virtual void give_back(void* block) noexcept = 0;
};

class TorchCuda {
 public:
  virtual ~TorchCuda() = default;
  // From now on `source` serves the calling thread's requests to PyTorch's CUDA allocator. nullptr: PyTorch's own
  // allocator does. Returns the source before. A block keeps its source alive.
  virtual std::shared_ptr<AllocationSource> serve(std::shared_ptr<AllocationSource> source) const = 0;
  // The allocator that operators ask: PyTorch's, or the source that serves the calling thread. Its memory is on the
  // current device.
  virtual c10::Allocator* allocator() const = 0;
  // Memory of PyTorch's own allocator, whatever serves the calling thread. Throws c10::OutOfMemoryError.
  virtual void* allocate(size_t bytes, void* stream) const = 0;
  virtual void free(void* block) const = 0;
  // Makes cuBLAS's handle for the calling thread and its workspaces for the current stream, if they do not exist.
  virtual void make_workspaces() const = 0;
  // Clears the error that a failed call of the calling thread left in CUDA.
  virtual void clear_error() const = 0;
  // A stream (cudaStream_t) that is not one of PyTorch's, as a stream of PyTorch.
  virtual c10::Stream stream(void* native, c10::DeviceIndex device) const = 0;
};

// While it lives, `source` serves the calling thread.
class ServedBy {
 public:
  explicit ServedBy(std::shared_ptr<AllocationSource> source);
  ~ServedBy();
  ServedBy(const ServedBy&) = delete;

 private:
  std::shared_ptr<AllocationSource> before_;
};

// Loaded once per process; thread-safe. nullptr for the reason `why`: this process has no CUDA build of PyTorch, or the
// library is missing.
const TorchCuda* torch_cuda(std::string* why = nullptr);

}  // namespace vesta::runtime
