// What one run needs besides its inputs: the arena, pointers to buffers, tensors of extern calls. Kept per thread and
// reused by every artifact the thread runs, so that a run in steady state allocates nothing but outputs.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Storage.h>

#include <memory>
#include <vector>

namespace vesta::runtime {

class Workspace {
 public:
  // Memory of at least `bytes`, 64-byte aligned; the arena of this run. That of a GPU comes from PyTorch's allocator
  // for each run, which serves it at once and keeps it for the current stream alone.
  char* arena(int64_t bytes, c10::Device device);
  // The same for the first steps of this run alone, until release_early().
  char* early_arena(int64_t bytes, c10::Device device);
  void release_early() { early_ = c10::Storage(); }
  // The next arena() and early_arena() are these, which are as large as will be asked for.
  void lend(c10::Storage arena, c10::Storage early) {
    on_device_ = std::move(arena);
    early_ = std::move(early);
    lent_ = true;
  }
  // The storages that own the arena's blocks: views of them may be handed to extern operators.
  const c10::Storage& storage() const { return on_device_ ? on_device_ : storage_; }
  const c10::Storage& early_storage() const { return early_; }
  bool owns(const void* p) const { return holds(storage(), p) || holds(early_, p); }
  // Room for a program of so many buffers.
  void take(size_t buffers);
  // To be called after a run: forgets tensors; gives the arena up if an operator kept a view of it.
  void finish();

  std::vector<void*> pointers;      // per buffer
  std::vector<at::Tensor> tensors;  // per buffer; undefined where there is none
  std::vector<void*> launch_args;
  std::vector<c10::IValue> stack;

 private:
  void allocate(int64_t bytes);
  static bool holds(const c10::Storage& block, const void* p);
  c10::Storage storage_, early_, on_device_;
  bool lent_ = false;  // the last two belong to a recording
  char* base_ = nullptr;
  int64_t capacity_ = 0;
  size_t buffers_ = 0;  // of the run
  int small_runs_ = 0;  // runs in a row that needed less than a quarter
};

// Borrows a workspace of the calling thread; runs may nest (an extern operator may call a compiled function).
class WorkspaceLease {
 public:
  WorkspaceLease();
  ~WorkspaceLease();
  WorkspaceLease(const WorkspaceLease&) = delete;
  Workspace* operator->() { return workspace_.get(); }
  Workspace& operator*() { return *workspace_; }

 private:
  std::unique_ptr<Workspace> workspace_;
};

// A block of its own, of PyTorch's allocator for the device.
c10::Storage storage_of(int64_t bytes, c10::Device device);

// Scratch of the calling thread for kernels' rows, 64-byte aligned, valid until the next call on this thread.
void* thread_scratch(int64_t bytes);

// Frees what idle workspaces of the calling thread hold.
void release_thread_memory();

}  // namespace vesta::runtime
