// What the CUDA graphs that are launched on one stream share: memory, for the stream runs them one after another, and a
// second stream to capture them on.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Storage.h>

#include <atomic>
#include <memory>

#include "machine/cuda/graph.h"

namespace vesta::runtime {

// Memory of recorded graphs, of PyTorch's allocator. Counted for the process.
class RecordedMemory {
 public:
  // For work on the current stream of the device, 512-byte aligned. Throws c10::OutOfMemoryError.
  RecordedMemory(int64_t bytes, c10::Device device);
  ~RecordedMemory();
  RecordedMemory(const RecordedMemory&) = delete;
  const c10::Storage& storage() const { return storage_; }
  char* data() const { return static_cast<char*>(storage_.mutable_data()); }
  int64_t bytes() const { return bytes_; }

  static int64_t held();  // bytes of all

 private:
  c10::Storage storage_;
  const int64_t bytes_;
};

class ReplayStream {
 public:
  // That of the device's current stream; one for each in the process.
  static ReplayStream& of(c10::Device device, void* stream);

  // Whoever runs a program with graphs has it for the whole run: steps of two runs on one stream must not mix in the
  // same memory. False: another run has it, or this thread's own, around an operator that calls a compiled function.
  bool try_enter() { return !entered_.exchange(true, std::memory_order_acquire); }
  void leave() { entered_.store(false, std::memory_order_release); }

  c10::Device device() const { return device_; }
  void* stream() const { return stream_; }

  // The following: by whoever has entered.

  // At least this large; graphs on the stream share it. Owners keep the one that they were given.
  std::shared_ptr<RecordedMemory> arena(int64_t bytes);
  std::shared_ptr<RecordedMemory> early_arena(int64_t bytes);
  // The stream to capture on, with what libraries keep for it and the calling thread made and in memory of ours.
  machine::CaptureStream& capture_stream();
  // Gives back what no graph uses.
  void trim();
  // The same of every stream that no thread has entered.
  static void trim_all();

 private:
  ReplayStream(c10::Device device, void* stream) : device_(device), stream_(stream) {}
  class Workspaces;
  struct Streams;
  static Streams& streams();
  const c10::Device device_;
  void* const stream_;
  std::shared_ptr<Workspaces> workspaces_;
  std::atomic<bool> entered_{false};
  std::shared_ptr<RecordedMemory> arena_, early_;
  std::unique_ptr<machine::CaptureStream> capture_;
};

// The current stream of a device (cudaStream_t).
void* current_stream(c10::Device device);

}  // namespace vesta::runtime
