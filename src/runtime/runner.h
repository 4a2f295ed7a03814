// Runs a bound program once.
#pragma once

#include <functional>
#include <span>

#include "runtime/bound_program.h"
#include "runtime/cuda/given_memory.h"
#include "runtime/input_check.h"
#include "runtime/resolver.h"
#include "runtime/workspace.h"

namespace vesta::runtime {

class Executable;
class Recording;
struct RecordedGraph;

class Runner {
 public:
  // `wrote` becomes true when the run begins to write what cannot be computed again. `device`: the device of its
  // kernels, which is the current one of its type. `entries`: parallel to Artifact::entries.
  Runner(const artifact::Artifact& artifact, c10::Device device, Sizes& sizes, const CallInputs& in,
         Workspace& workspace, bool& wrote, std::span<const std::unique_ptr<Executable>> entries = {})
      : artifact_(artifact),
        device_(device),
        sizes_(sizes),
        resolved_(&sizes.now()),
        in_(in),
        ws_(workspace),
        wrote_(wrote),
        entries_(entries) {}

  // Points buffers that exist before the first step to their memory. The addresses of the inputs must be known, and
  // inputs that are written in place must have their own. `prepacked`: tensors of Prepacked buffers. `recording`: a
  // recording of the program, whose arena is used and whose graphs run in place of their steps.
  // `given`: memory that the recording is made for.
  void begin(const BoundProgram& program, std::span<const at::Tensor> prepacked, Recording* recording = nullptr,
             GivenMemory given = {});
  // Runs every step except the copies to inputs. `sizes` are complete when it returns.
  void run(const BoundProgram& program, std::span<at::Tensor> consumed);
  // Runs these steps of a program of prepacked steps.
  void run_prepacked(const BoundProgram& program, const std::vector<bool>& wanted);
  // For a recording that is being made, in the order of steps, on a stream that is captured. capture() runs the steps
  // from `first` on and calls done(i) after each; buffers outside of the arena and the recording's memory have no
  // address yet. pass_over() does the same without running the steps.
  // Calls made(buffer, result) for a result that a call has made elsewhere than in the memory that the buffer has.
  using Made = std::function<void(int, const at::Tensor&)>;
  void capture(int first, int end, const std::function<void(int)>& done, const Made& made = {});
  void pass_over(int first, int end);
  // Runs the copies to inputs, which come after every other step.
  void copy_back(const BoundProgram& program);
  // A tensor of its own with the output's exact type. Call it before copy_back().
  at::Tensor take_output(const Resolved::Output& output);
  void allocate(int buffer);

 private:
  void run_step(int number);
  void run_graph(RecordedGraph& graph, std::span<at::Tensor> consumed);
  void run_last_calls(int first, int end);
  void leave_step(int number, std::span<at::Tensor> consumed);
  static void drop(const std::vector<int>& inputs, std::span<at::Tensor> consumed);
  void make(int buffer);  // called before the step that fills it
  // Sets the addresses of the buffers that lie in the early block of the arena, or in the kept one.
  void place(const Standing& standing, bool early, char* block);
  void place_late_arena();  // allocates the kept block
  void launch(const BoundStep& step, const ResolvedLaunch& launch);
  const int64_t* sizes_of(const artifact::Launch& launch, const ResolvedLaunch& resolved);
  void launch_profiled(const BoundStep& step, const ResolvedLaunch& launch);
  void launch_on_device(const BoundStep& step, const ResolvedLaunch& launch, void** buffers);
  void call(const BoundStep& step, const ResolvedExtern& call);
  // Takes the symbols that the call defines from its results. References to what was resolved before end.
  void define(const artifact::Extern& call, std::span<const c10::IValue> returned);
  void enter(const artifact::Call& call, const std::vector<ResolvedView>& inputs);
  // `from`: the operator, for messages.
  void store_result(int buffer, at::Tensor result, const std::string& from);
  at::Tensor view(const ResolvedView& v) const;
  // Memory for a buffer of BoundProgram::passing(). Buffers that live one after another share one block, because fresh
  // memory costs more than most calls that fill it.
  at::Tensor borrow(int buffer);
  const at::Tensor& base(int buffer) const;  // undefined for arena memory

  const artifact::Artifact& artifact_;
  const c10::Device device_;  // of the kernels and the arena
  void* stream_ = nullptr;    // of the device, if it is a GPU
  Sizes& sizes_;
  const Resolved* resolved_;
  const Resolved::Step* next_ = nullptr;  // for the next step
  const CallInputs& in_;
  Workspace& ws_;
  bool& wrote_;
  std::span<const std::unique_ptr<Executable>> entries_;
  const BoundProgram* program_ = nullptr;
  Recording* recording_ = nullptr;
  int late_arena_ = -1;  // the step before which the kept block is allocated; -1: begin() has done it
  bool capturing_ = false;
  const Made* made_ = nullptr;  // while capture() runs
  c10::Storage calls_memory_;   // of extern calls in the recording's graphs, if the run gives it
  bool profiled_ = false;       // by PyTorch's profiler, which shows each launch by its name
  std::vector<c10::Storage> passing_;
};

at::Tensor allocate_tensor(const ResolvedTensor& type);
// On the current device, by PyTorch's CUDA allocator itself: the operator costs more than the memory.
at::Tensor allocate_directly(const ResolvedTensor& type);
// A view at `offset` elements into the storage. verify() and bounds.h have checked its bounds.
at::Tensor window(const c10::Storage& storage, const ResolvedTensor& type, int64_t offset);
// A view of the same memory without pending bits.
at::Tensor memory_of(const at::Tensor& t);

}  // namespace vesta::runtime
