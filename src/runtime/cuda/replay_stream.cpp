#include "runtime/cuda/replay_stream.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <array>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/cuda/torch_cuda.h"
#include "runtime/workspace.h"

namespace vesta::runtime {
namespace {

std::string name_of(c10::Device device, void* stream) { return fmt::format("{} stream {}", device.str(), stream); }

}  // namespace

struct ReplayStream::Streams {
  std::mutex mutex;
  std::map<std::pair<c10::DeviceIndex, void*>, std::unique_ptr<ReplayStream>> known;
};
ReplayStream::Streams& ReplayStream::streams() {
  static auto* s = new Streams;
  return *s;
}

// Memory of libraries' workspaces. PyTorch keeps a workspace for each cuBLAS handle, that is for each thread, and
// stream, and frees them now and then (when one of its own graphs is destroyed, or on request). Recorded graphs
// continue to use them, so their memory stays and serves the next workspace. The graphs run on the stream, after what
// the libraries do there, so a thread's workspaces for the stream and for the stream to capture on are the same memory.
// Those of two threads are not: kernels of cuBLAS may overlap on one stream, and cuBLAS keeps them apart in one
// handle's workspace alone.
class ReplayStream::Workspaces {
 public:
  enum Of : uint8_t { ThisStream, CaptureStream };
  Workspaces(c10::Device device, void* stream)
      : stream_(stream), held_(totals::Memory::CudaGraphs, name_of(device, stream)) {}

  // Serves workspaces of the calling thread for one of the two streams.
  static std::shared_ptr<AllocationSource> source(std::shared_ptr<Workspaces> of, Of stream) {
    class Source final : public AllocationSource {
     public:
      Source(std::shared_ptr<Workspaces> of, Of stream) : of_(std::move(of)), stream_(stream) {}
      void* take(size_t bytes) override { return of_->take(bytes, stream_); }
      void give_back(void* block) noexcept override { of_->give_back(block, stream_); }

     private:
      const std::shared_ptr<Workspaces> of_;
      const Of stream_;
    };
    return std::make_shared<Source>(std::move(of), stream);
  }

 private:
  struct Block {
    void* memory = nullptr;
    size_t bytes = 0;
    std::thread::id thread;
    std::array<bool, 2> used{};  // by Of
  };
  void* take(size_t bytes, Of stream) {
    const std::lock_guard lock(mutex_);
    const std::thread::id here = std::this_thread::get_id();
    for (Block& b : blocks_) {
      if (b.thread != here || b.used[stream] || b.bytes < bytes || b.bytes > 2 * bytes) continue;
      b.used[stream] = true;
      return b.memory;
    }
    Block& made = blocks_.emplace_back(Block{torch_cuda()->allocate(bytes, stream_), bytes, here, {}});
    made.used[stream] = true;
    held_.set(bytes_ += static_cast<int64_t>(bytes));
    return made.memory;
  }
  void give_back(void* block, Of stream) noexcept {
    const std::lock_guard lock(mutex_);
    for (Block& b : blocks_)
      if (b.memory == block) b.used[stream] = false;
  }

  void* const stream_;
  std::mutex mutex_;
  std::vector<Block> blocks_;
  int64_t bytes_ = 0;
  totals::KeptBytes held_;
};

RecordedMemory::RecordedMemory(int64_t bytes, c10::Device device)
    : storage_(storage_of(bytes, device)),
      bytes_(bytes),
      held_(totals::Memory::CudaGraphs, name_of(device, current_stream(device))) {
  held_.set(bytes);
}
int64_t RecordedMemory::held() { return totals::bytes(totals::Memory::CudaGraphs); }

void* current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle();
}

ReplayStream::ReplayStream(c10::Device device, void* stream)
    : device_(device), stream_(stream), workspaces_(std::make_shared<Workspaces>(device, stream)) {}

ReplayStream& ReplayStream::of(c10::Device device, void* stream) {
  Streams& s = streams();
  const std::lock_guard lock(s.mutex);
  std::unique_ptr<ReplayStream>& found = s.known[{device.index(), stream}];
  if (!found) found.reset(new ReplayStream(device, stream));
  return *found;
}

void ReplayStream::trim() {
  for (auto& shared : memory_)
    if (shared.use_count() == 1) shared.reset();
}

void ReplayStream::trim_all() {
  Streams& s = streams();
  const std::lock_guard lock(s.mutex);
  for (auto& [key, stream] : s.known) {
    if (!stream->try_enter()) continue;
    stream->trim();
    stream->leave();
  }
}

std::shared_ptr<RecordedMemory> ReplayStream::memory(Of of, int64_t bytes) {
  std::shared_ptr<RecordedMemory>& shared = memory_[of];
  if (!shared || shared->bytes() < bytes) {
    shared.reset();
    shared = std::make_shared<RecordedMemory>(bytes, device_);
  }
  return shared;
}

int64_t ReplayStream::replaced_bytes(const Memory& memory) const {
  int64_t bytes = 0;
  for (size_t of = 0; of < memory.size(); ++of)
    if (memory[of] && memory[of] != memory_[of]) bytes += memory[of]->bytes();
  return bytes;
}

void ReplayStream::make_workspaces() {
  if (!made_workspaces_.insert(std::this_thread::get_id()).second) return;
  const c10::StreamGuard on(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  const ServedBy served(Workspaces::source(workspaces_, Workspaces::ThisStream));
  torch_cuda()->make_workspaces();
}

machine::CaptureStream& ReplayStream::capture_stream(bool calls_libraries) {
  if (!capture_) capture_ = machine::make_capture_stream();
  if (calls_libraries) {
    // No kernel may run in the workspaces now, because a graph may be using them.
    const c10::StreamGuard on(torch_cuda()->stream(capture_->native(), device_.index()));
    const ServedBy served(Workspaces::source(workspaces_, Workspaces::CaptureStream));
    torch_cuda()->make_workspaces();
  }
  return *capture_;
}

}  // namespace vesta::runtime
