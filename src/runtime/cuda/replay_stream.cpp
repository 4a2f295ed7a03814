#include "runtime/cuda/replay_stream.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
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
// continue to use them, so their memory stays and serves the next workspace.
//
// Two threads never use the same workspace at the same time: the kernels of one product may be put on the stream before
// and after another thread's work. A graph that only the thread that recorded it launches uses this thread's
// workspaces: the thread puts its other work on the stream before or after the whole graph. Graphs that every thread
// may launch share separate workspaces, because the stream runs one such graph after the other.
class ReplayStream::Workspaces {
 public:
  enum Of : uint8_t { ThisStream, OwnGraphs, SharedGraphs };
  Workspaces(c10::Device device, void* stream)
      : stream_(stream), held_(totals::Memory::CudaGraphs, name_of(device, stream)) {}

  // Serves workspaces of the calling thread.
  static std::shared_ptr<AllocationSource> source(std::shared_ptr<Workspaces> workspaces, Of of) {
    class Source final : public AllocationSource {
     public:
      Source(std::shared_ptr<Workspaces> workspaces, Of of) : workspaces_(std::move(workspaces)), of_(of) {}
      void* take(size_t bytes) override { return workspaces_->take(bytes, of_); }
      void give_back(void* block) noexcept override { workspaces_->give_back(block, of_); }

     private:
      const std::shared_ptr<Workspaces> workspaces_;
      const Of of_;
    };
    return std::make_shared<Source>(std::move(workspaces), of);
  }

 private:
  using User = std::pair<Of, uint64_t>;  // and the thread's number
  struct Block {
    void* memory = nullptr;
    size_t bytes = 0;
    uint64_t owner = 0;  // the thread's number; 0: graphs of all threads
    std::set<User> users;
  };
  void* take(size_t bytes, Of of) {
    const std::lock_guard lock(mutex_);
    const User user{of, thread_number()};
    const uint64_t owner = of == SharedGraphs ? 0 : user.second;
    for (Block& b : blocks_) {
      if (b.owner != owner || b.bytes < bytes || b.bytes > 2 * bytes || !b.users.insert(user).second) continue;
      return b.memory;
    }
    blocks_.push_back({torch_cuda()->allocate(bytes, stream_), bytes, owner, {user}});
    held_.set(bytes_ += static_cast<int64_t>(bytes));
    return blocks_.back().memory;
  }
  void give_back(void* block, Of of) noexcept {
    const std::lock_guard lock(mutex_);
    for (Block& b : blocks_)
      if (b.memory == block) std::erase_if(b.users, [of](const User& u) { return u.first == of; });
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

std::shared_ptr<RecordedMemory> ReplayStream::memory(WorkMemory which, int64_t bytes) {
  std::shared_ptr<RecordedMemory>& shared = memory_[static_cast<size_t>(which)];
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
  static thread_local std::set<const ReplayStream*> made;
  if (!made.insert(this).second) return;
  const c10::StreamGuard on(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  const ServedBy served(Workspaces::source(workspaces_, Workspaces::ThisStream));
  torch_cuda()->make_workspaces();
}

machine::CaptureStream& ReplayStream::capture_stream(bool calls_libraries) {
  std::unique_ptr<machine::CaptureStream>& capture = capture_[shared_ ? 1 : 0];
  if (!capture) capture = machine::make_capture_stream();
  if (calls_libraries) {
    // No kernel may run in the workspaces now, because a graph may be using them.
    const c10::StreamGuard on(torch_cuda()->stream(capture->native(), device_.index()));
    const ServedBy served(Workspaces::source(workspaces_, shared_ ? Workspaces::SharedGraphs : Workspaces::OwnGraphs));
    torch_cuda()->make_workspaces();
  }
  return *capture;
}

uint64_t thread_number() {
  static std::atomic<uint64_t> threads{0};
  static thread_local const uint64_t own = ++threads;
  return own;
}

}  // namespace vesta::runtime
