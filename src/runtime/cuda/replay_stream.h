// What CUDA graphs launched on one stream share: memory, because the stream runs them one after another, and a second
// stream on which they are captured.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Storage.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/totals.h"
#include "machine/cuda/graph.h"
#include "runtime/cuda/given_memory.h"

namespace vesta::runtime {

// Memory of recorded graphs from PyTorch's allocator. Its bytes are counted for the process.
class RecordedMemory {
 public:
  // For work on the current stream of the device, 512-byte aligned. Throws c10::OutOfMemoryError.
  RecordedMemory(int64_t bytes, c10::Device device);
  RecordedMemory(const RecordedMemory&) = delete;
  const c10::Storage& storage() const { return storage_; }
  char* data() const { return static_cast<char*>(storage_.mutable_data()); }
  int64_t bytes() const { return bytes_; }

  static int64_t held();  // in bytes, of the whole process

 private:
  c10::Storage storage_;
  const int64_t bytes_;
  totals::KeptBytes held_;
};

class ReplayStream {
 public:
  // The ReplayStream of the device's current stream. The process has one for each stream.
  static ReplayStream& of(c10::Device device, void* stream);

  // A run of a program with graphs holds it until its end: steps of two runs on one stream must not mix in the same
  // memory. False: another run holds it, or a run of this thread does, around an operator that calls a compiled
  // function.
  bool try_enter() { return !entered_.exchange(true, std::memory_order_acquire); }
  void leave() { entered_.store(false, std::memory_order_release); }

  c10::Device device() const { return device_; }
  void* stream() const { return stream_; }

  // For the holder only:

  // What the graphs on the stream share, by WorkMemory.
  using Memory = std::array<std::shared_ptr<RecordedMemory>, kWorkMemories>;
  // Memory of at least this size. An owner keeps the memory that it got.
  std::shared_ptr<RecordedMemory> memory(WorkMemory which, int64_t bytes);
  // The bytes of these that would be freed with them, because larger memory has taken their place.
  int64_t replaced_bytes(const Memory& memory) const;
  // Makes what libraries keep for this stream and the calling thread, in our memory, unless it exists. For the first
  // run of a program that calls libraries: its recording then uses the same memory. Throws c10::OutOfMemoryError.
  void make_workspaces();
  // The stream to capture on. `calls_libraries`: what they keep for it and the calling thread exists and is in our
  // memory. Other threads may launch such a graph only if is_shared() was true before the capture.
  machine::CaptureStream& capture_stream(bool calls_libraries);
  // Whether graphs use workspaces that no call beside a graph uses. Until then they use those of the thread that
  // captures: other threads must not launch them, because the kernels of one product of that thread may be put on the
  // stream before and after the graph.
  bool is_shared() const { return shared_; }
  void share() { shared_ = true; }
  // Frees memory that no graph uses.
  void trim();
  // Trims every stream that no thread has entered.
  static void trim_all();

 private:
  ReplayStream(c10::Device device, void* stream);
  class Workspaces;
  struct Streams;
  static Streams& streams();
  const c10::Device device_;
  void* const stream_;
  const std::shared_ptr<Workspaces> workspaces_;
  std::atomic<bool> entered_{false};
  Memory memory_;
  bool shared_ = false;
  std::array<std::unique_ptr<machine::CaptureStream>, 2> capture_;  // by is_shared()
};

// A number of the calling thread that no other thread of the process has or will have, unlike its std::thread::id.
uint64_t thread_number();

// The current stream of a device (cudaStream_t).
void* current_stream(c10::Device device);

}  // namespace vesta::runtime
