// One run of a bound program.
#pragma once

#include <span>

#include "runtime/bound_program.h"
#include "runtime/input_check.h"
#include "runtime/resolver.h"
#include "runtime/workspace.h"

namespace vesta::runtime {

class Executable;

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

  // Points every buffer that exists before the first step to its memory. `derived`: tensors of Derived buffers.
  void begin(const BoundProgram& program, std::span<const at::Tensor> derived);
  // Every step but the copies to inputs. `sizes` know all when it returns.
  void run(const BoundProgram& program, std::span<at::Tensor> consumed);
  // The copies to inputs, which follow every other step.
  void copy_back(const BoundProgram& program);
  // A tensor of its own with the output's exact type. To be called before copy_back.
  at::Tensor take_output(const Resolved::Output& output);
  void allocate(int buffer);

 private:
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
  std::vector<c10::Storage> passing_;
};

at::Tensor allocate_tensor(const ResolvedTensor& type);
// A view of the same with nothing pending.
at::Tensor memory_of(const at::Tensor& t);

}  // namespace vesta::runtime
