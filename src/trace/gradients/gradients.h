// Traces a program whose gradients eager would record.
//
// Each operator arrives whole, is noted on the tape, and then runs as in eager: composite operators decompose, and
// operators with a derivative go through autograd's own kernel, which calls back below autograd for the result.
// Guarantees that requires_grad, is_leaf, views and versions of traced tensors are eager's, and so are autograd's
// errors. The trace drops the autograd graph at its end, after a check that the tape says everything that is in it.
//
// A real tensor may never enter that autograd graph: its fake tensor does.
#pragma once

#include <ATen/core/stack.h>

#include <unordered_set>

#include "graph/joint.h"
#include "trace/gradients/joint.h"
#include "trace/gradients/tape.h"
#include "trace/operators/operator_table.h"

namespace vesta::trace {

class Recorder;
class TracedTensorImpl;

class Gradients {
 public:
  explicit Gradients(Recorder& r);

  // Traces any operator that reaches the trace.
  void call(const Operator& op, torch::jit::Stack& stack);
  // Notes one more input of the graph. A new fake tensor gets the real tensor's autograd state.
  void add_input(const at::Tensor& real, const at::Tensor& fake, bool is_new);
  // Notes a copy that shares memory but that autograd does not see (tensor.data).
  void note_copy(const TracedTensorImpl& original, TracedTensorImpl& copy);
  // Notes what the program wrote into one of its tensors through a pointer.
  void note_contents(int tensor, const at::Tensor& contents);
  // Appends the backward pass to the graph, whose outputs are known. Throws Unsupported or what torch's formulas throw;
  // then the graph is as it was.
  graph::Joint add_backward(const std::vector<c10::IValue>& results);
  // Completes the tape. Throws Unsupported where the tape would not do all that eager's autograd does.
  Tape finish(const std::vector<c10::IValue>& results);

 private:
  TapeTensor tensor_of(const at::Tensor& t) const;
  TapeTensor name(const at::Tensor& t);
  TapeArg to_arg(const c10::IValue& v, const c10::Type& type) const;
  TapeArg to_result(const c10::IValue& v);
  bool belongs_on_tape(const Operator& op) const;
  void refuse_hidden_state() const;
  void run(const Operator& op, torch::jit::Stack& stack);
  void run_differentiably(const Operator& op, torch::jit::Stack& stack);
  void check_history(const std::vector<c10::IValue>& results, bool for_tape) const;

  Recorder& recorder_;
  Tape tape_;
  std::vector<JointInput> inputs_;
  std::unordered_set<const void*> known_functions_;  // nodes that custom operators made
  bool inside_ = false;                              // of an operator that is on the tape
  bool below_autograd_ = false;
  size_t saved_tensor_hooks_;
};

}  // namespace vesta::trace
