// Memory that one run needs besides its inputs: the arena, pointers to buffers, tensors of extern calls. A thread keeps
// it for all artifacts that it runs, so that a run in steady state allocates only outputs.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Storage.h>

#include <memory>
#include <vector>

#include "base/totals.h"

namespace vesta::runtime {

class Workspace {
 public:
  // The arena of this run: at least `bytes`, 64-byte aligned. `kept`: on a CPU, it stays allocated for the next run. A
  // GPU's arena comes from PyTorch's allocator in each run, which serves it at once and keeps it for the current
  // stream.
  char* arena(int64_t bytes, c10::Device device, bool kept);
  // An arena for the first steps of this run only, until release_early().
  char* early_arena(int64_t bytes, c10::Device device);
  void release_early() { early_ = c10::Storage(); }
  // Frees an arena that is not kept before the run has ended.
  void release_arena() { of_run_ = c10::Storage(); }
  // The next arena() and early_arena() return these, which are as large as needed.
  void lend(c10::Storage arena, c10::Storage early) {
    of_run_ = std::move(arena);
    early_ = std::move(early);
    lent_ = true;
  }
  // The storages that own the arenas' blocks. Extern operators may get views of them.
  const c10::Storage& storage() const { return of_run_ ? of_run_ : storage_; }
  const c10::Storage& early_storage() const { return early_; }
  bool owns(const void* p) const { return holds(storage(), p) || holds(early_, p); }
  // Sets the tensor of a buffer, which has none.
  void set(int buffer, at::Tensor t) {
    set_.push_back(buffer);
    tensors[static_cast<size_t>(buffer)] = std::move(t);
  }
  // Makes room for a program with this many buffers.
  void take(size_t buffers);
  // Call it after a run: drops tensors, and drops the arena if an operator kept a view of it.
  void finish();

  std::vector<void*> pointers;      // per buffer
  std::vector<at::Tensor> tensors;  // per buffer; undefined where there is none. set() sets them
  std::vector<void*> launch_args;
  std::vector<int64_t> launch_sizes;
  std::vector<c10::IValue> stack;

 private:
  void allocate(int64_t bytes);
  static bool holds(const c10::Storage& block, const void* p);
  c10::Storage storage_, early_, of_run_;
  bool lent_ = false;  // both arenas belong to a recording
  char* base_ = nullptr;
  int64_t capacity_ = 0;
  totals::KeptBytes held_{totals::Memory::Arenas, totals::name_of_thread()};
  std::vector<int> set_;  // buffers of the current run that got a tensor
  int small_runs_ = 0;    // consecutive runs that needed less than a quarter
};

// Borrows a workspace of the calling thread. Runs may nest: an extern operator may call a compiled function.
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

// A new block of PyTorch's allocator for the device.
c10::Storage storage_of(int64_t bytes, c10::Device device);

// Scratch of the calling thread for kernels' rows, 64-byte aligned, valid until the next call on this thread.
void* thread_scratch(int64_t bytes);

}  // namespace vesta::runtime
