#include "runtime/workspace.h"

#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace vesta::runtime {

namespace {

// An arena this small is never freed: it costs less than allocating it again.
constexpr int64_t kKeepBytes = int64_t{8} << 20;
constexpr int kSmallRunsBeforeShrink = 64;

std::vector<std::unique_ptr<Workspace>>& idle_workspaces() {
  static thread_local std::vector<std::unique_ptr<Workspace>> idle;
  return idle;
}

struct Scratch {
  void* memory = nullptr;
  int64_t capacity = 0;
  ~Scratch() { std::free(memory); }
};

}  // namespace

c10::Storage storage_of(int64_t bytes, c10::Device device) {
  if (!device.is_cpu()) return at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(device)).storage();
  c10::Allocator* allocator = c10::GetDefaultCPUAllocator();
  return {c10::Storage::use_byte_size_t(), static_cast<size_t>(bytes), allocator->allocate(bytes), allocator,
          /*resizable=*/false};
}

void Workspace::allocate(int64_t bytes) {
  storage_ = c10::Storage();
  base_ = nullptr;
  capacity_ = 0;
  small_runs_ = 0;
  storage_ = storage_of(bytes, c10::kCPU);
  base_ = static_cast<char*>(storage_.mutable_data());
  capacity_ = bytes;
  held_.set(bytes);
}

char* Workspace::arena(int64_t bytes, c10::Device device, bool kept) {
  if (!device.is_cpu() || !kept) {
    if (!lent_) of_run_ = storage_of(bytes, device);
    return static_cast<char*>(of_run_.mutable_data());
  }
  if (bytes > capacity_) {
    allocate(bytes);
  } else if (capacity_ > kKeepBytes && bytes < capacity_ / 4) {
    if (++small_runs_ >= kSmallRunsBeforeShrink) allocate(std::max(bytes, int64_t{64}));
  } else {
    small_runs_ = 0;
  }
  return base_;
}

char* Workspace::early_arena(int64_t bytes, c10::Device device) {
  if (!lent_) early_ = storage_of(bytes, device);
  return static_cast<char*>(early_.mutable_data());
}

bool Workspace::holds(const c10::Storage& block, const void* p) {
  if (!block) return false;
  const auto* begin = static_cast<const char*>(block.data());
  return p >= begin && p < begin + block.nbytes();
}

void Workspace::take(size_t buffers) {
  if (pointers.size() >= buffers) return;
  pointers.resize(buffers);
  tensors.resize(buffers);
}

void Workspace::finish() {
  release_early();
  of_run_ = c10::Storage();
  lent_ = false;
  for (const int b : set_) tensors[static_cast<size_t>(b)].reset();
  set_.clear();
  stack.clear();
  if (capacity_ > 0 && storage_.use_count() > 1) {
    storage_ = c10::Storage();
    base_ = nullptr;
    capacity_ = 0;
    held_.set(0);
  }
}

WorkspaceLease::WorkspaceLease() {
  auto& idle = idle_workspaces();
  if (idle.empty()) {
    workspace_ = std::make_unique<Workspace>();
  } else {
    workspace_ = std::move(idle.back());
    idle.pop_back();
  }
}

WorkspaceLease::~WorkspaceLease() {
  workspace_->finish();
  idle_workspaces().push_back(std::move(workspace_));
}

void* thread_scratch(int64_t bytes) {
  static thread_local Scratch s;
  if (bytes > s.capacity) {
    std::free(s.memory);
    s.memory = nullptr;
    s.capacity = 0;
    const int64_t rounded = (bytes + 4095) / 4096 * 4096;
    s.memory = std::aligned_alloc(64, rounded);
    if (!s.memory) throw std::bad_alloc();
    s.capacity = rounded;
  }
  return s.memory;
}

}  // namespace vesta::runtime
