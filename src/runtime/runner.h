// One run of a bound program.
#pragma once

#include <functional>
#include <span>

#include "runtime/bound_program.h"
#include "runtime/input_check.h"
#include "runtime/resolver.h"
#include "runtime/workspace.h"

namespace vesta::runtime {

class Executable;
class Recording;
struct RecordedGraph;

class Runner {
 public:
  // `wrote` becomes true when the run begins to write what cannot be computed again.
  // `device`: where its kernels run, the current one of its kind. `entries`: parallel to Artifact::entries.
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

  // Points buffers that exist before the first step to their memory. The inputs' addresses must be known, and those
  // that are written in place be their own. `derived`: tensors of Derived buffers.
  // `recording`: of the program; the arena is its, and its graphs run in the place of their steps.
  void begin(const BoundProgram& program, std::span<const at::Tensor> derived, Recording* recording = nullptr);
  // Every step but the copies to inputs. `sizes` know all when it returns.
  void run(const BoundProgram& program, std::span<at::Tensor> consumed);
  // For a recording that is being made, in the order of steps, on a stream that is captured. capture(): the steps from
  // `first` on, done(i) after each; what is outside the arena and the recording's memory has no address yet.
  // pass_over(): the same without running them.
  void capture(int first, int end, const std::function<void(int)>& done);
  void pass_over(int first, int end);
  // The copies to inputs, which follow every other step.
  void copy_back(const BoundProgram& program);
  // A tensor of its own with the output's exact type. To be called before copy_back.
  at::Tensor take_output(const Resolved::Output& output);
  void allocate(int buffer);

 private:
  void run_step(int number);
  void run_graph(RecordedGraph& graph, std::span<at::Tensor> consumed);
  void leave_step(int number, std::span<at::Tensor> consumed);
  static void drop(const std::vector<int>& inputs, std::span<at::Tensor> consumed);
  void make(int buffer);  // before the step that fills it
  void launch(const BoundStep& step, const ResolvedLaunch& launch);
  void launch_on_device(const BoundStep& step, const ResolvedLaunch& launch, void** buffers);
  void call(const BoundStep& step, const ResolvedExtern& call);
  // Takes the symbols that the call defines from what it has returned. What was resolved before is gone after it.
  void define(const artifact::Extern& call, std::span<const c10::IValue> returned);
  void enter(const artifact::Call& call, const std::vector<ResolvedView>& inputs);
  // `from`: the operator, for messages.
  void store_result(int buffer, at::Tensor result, const std::string& from);
  at::Tensor view(const ResolvedView& v) const;
  // Memory for a buffer of BoundProgram::passing(). One block serves all that live one after another, as fresh memory
  // costs more than most of what fills it.
  at::Tensor borrow(int buffer);
  const at::Tensor& base(int buffer) const;  // undefined for arena memory

  const artifact::Artifact& artifact_;
  const c10::Device device_;  // of kernels and the arena
  void* stream_ = nullptr;    // of the device, if that is a GPU
  Sizes& sizes_;
  const Resolved* resolved_;
  const Resolved::Step* next_ = nullptr;  // of the step that runs next
  const CallInputs& in_;
  Workspace& ws_;
  bool& wrote_;
  std::span<const std::unique_ptr<Executable>> entries_;
  const BoundProgram* program_ = nullptr;
  Recording* recording_ = nullptr;
  bool capturing_ = false;
  std::vector<c10::Storage> passing_;
};

at::Tensor allocate_tensor(const ResolvedTensor& type);
// At `offset` elements into the storage. Its bounds are known to hold (verify(), bounds.h).
at::Tensor window(const c10::Storage& storage, const ResolvedTensor& type, int64_t offset);
// A view of the same with nothing pending.
at::Tensor memory_of(const at::Tensor& t);

}  // namespace vesta::runtime
