// What recording into CUDA graphs needs of PyTorch's CUDA library. libvesta_cuda has it: the one library that is
// compiled against torch's CUDA headers. It is loaded when a program first runs on a GPU.
#pragma once

#include <c10/core/Stream.h>

#include <cstddef>
#include <memory>
#include <string>

namespace vesta::runtime {

// Where the blocks come from that operators ask PyTorch's CUDA allocator for.
class AllocationSource {
 public:
  virtual ~AllocationSource() = default;
  // `bytes` > 0, on the current device. The caller takes what alignment PyTorch's allocator has: 512 bytes.
  virtual void* take(size_t bytes) = 0;
  // A block that take() gave; by any thread, at any time.
  virtual void give_back(void* block) noexcept = 0;
};

class TorchCuda {
 public:
  virtual ~TorchCuda() = default;
  // From now on `source` serves what the calling thread asks PyTorch's CUDA allocator for; nullptr: PyTorch's own
  // allocator does. Returns the source before. A block keeps its source alive.
  virtual std::shared_ptr<AllocationSource> serve(std::shared_ptr<AllocationSource> source) const = 0;
  // Of PyTorch's own allocator, whoever serves the calling thread. Throws c10::OutOfMemoryError.
  virtual void* allocate(size_t bytes, void* stream) const = 0;
  virtual void free(void* block) const = 0;
  // Makes cuBLAS's handle for the calling thread and its workspaces for the current stream, if they are missing.
  virtual void make_workspaces() const = 0;
  // Forgets the error that a failed call of the calling thread has left for the next one to find.
  virtual void clear_error() const = 0;
  // A stream (cudaStream_t) that is none of PyTorch's, as it sees streams.
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

// Once per process; thread-safe. nullptr, for the reason `why`: this process has no CUDA build of PyTorch, or the
// library is not there.
const TorchCuda* torch_cuda(std::string* why = nullptr);

}  // namespace vesta::runtime
