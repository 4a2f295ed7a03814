// Traces a program whose gradients eager would record.
//
// Each operator runs as in eager: composite operators decompose, and operators with a derivative go through autograd's
// own kernel, which calls back below autograd for the result. Guarantees that requires_grad, is_leaf, views and
// versions of traced tensors are eager's, and so are autograd's errors. The trace drops the autograd graph at its end,
// after it has recorded the backward pass into the graph.
//
// A real tensor may never enter that autograd graph: its fake tensor does.
#pragma once

#include <ATen/core/stack.h>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/joint.h"
#include "trace/gradients/graph_history.h"
#include "trace/gradients/inner_backward.h"
#include "trace/gradients/joint.h"
#include "trace/gradients/traced_function.h"
#include "trace/operators/operator_table.h"

namespace vesta::trace {

class Recorder;

class Gradients {
 public:
  explicit Gradients(Recorder& r);

  // Traces any operator that reaches the trace.
  void call(const Operator& op, torch::jit::Stack& stack);
  // Notes one more input of the graph. A new fake tensor gets the real tensor's autograd state.
  void add_input(const at::Tensor& real, const at::Tensor& fake, bool is_new);
  // Notes a call of a torch.autograd.Function, whose backward method it traces.
  void add_function(const std::vector<at::Tensor>& arguments, const std::vector<at::Tensor>& results, bool fills_zeros);
  // nullptr: the node is none of such a function.
  const TracedFunction* function_of(const torch::autograd::Node& node) const;
  // The line of the program whose operator made the node; empty: it is unknown.
  std::string line_of(const torch::autograd::Node& node) const;
  // Records a backward pass that the program runs. Throws Unsupported, what eager throws, or what an event throws.
  std::vector<at::Tensor> run_backward(const InnerBackward& call, PassEvents& events);
  // While it lives, operators reach the trace through autograd, as those of the program do.
  class AboveAutograd {
   public:
    explicit AboveAutograd(bool& below) : below_(below), was_(std::exchange(below, false)) {}
    ~AboveAutograd() { below_ = was_; }
    AboveAutograd& operator=(AboveAutograd&&) = delete;  // neither copied nor moved

   private:
    bool& below_;
    const bool was_;
  };
  AboveAutograd above_autograd() { return AboveAutograd(below_autograd_); }
  // The program puts a hook on a tensor that it made, or lets it keep its gradient; or puts a hook on the node of a
  // torch.autograd.Function. Passes of the program itself run it. Where a later pass would, the caller repeats it, or
  // the trace ends before this place.
  enum class HookKind : uint8_t { OnTensor, OnNode, KeepsGradient };
  void add_hook(const at::Tensor& tensor, HookKind kind);
  void add_hook(const NodePointer& function);
  // Tensors with hooks, on them or on their nodes, that a pass from one of these results would call and that can be
  // repeated.
  using Pending = std::pair<at::Tensor, HookKind>;
  std::vector<Pending> pending_hooks(const std::vector<at::Tensor>& results) const;
  // The tensor is a result, and the caller puts its hooks of this kind on what each call makes for it. Without `any`,
  // there are none any more.
  void repeat_hooks(const at::Tensor& tensor, HookKind kind, bool any);
  // Appends the backward pass to the graph, whose outputs are known. Throws GradientNotTraced, or Unsupported where the
  // compiled program would not do all that eager's autograd does.
  graph::Joint add_backward(const std::vector<c10::IValue>& results);

  GraphHistory history;

 private:
  // The operators with nodes of autograd, in their order.
  struct Recorded {
    uint64_t first = 0, end = 0;  // the sequence numbers of its nodes
    const Operator* op = nullptr;
    int place = -1;    // TraceOptions::place
    std::string line;  // TraceOptions::line
  };
  // The operator that made the node; nullptr: none did.
  const Recorded* made(uint64_t sequence_number) const;

  void refuse_hidden_state() const;
  void run(const Operator& op, torch::jit::Stack& stack);
  void run_differentiably(const Operator& op, torch::jit::Stack& stack);
  void refuse_written_views() const;
  bool check_history(const std::vector<c10::IValue>& results) const;
  [[noreturn]] void refuse_hook(const torch::autograd::Node* node) const;
  bool calls_hooks(const torch::autograd::Node& node) const;
  bool may_have_hooks(const torch::autograd::Node& node) const;
  bool may_keep_gradient(const at::Tensor& result) const;
  std::vector<HookedResult> hooked_results(const std::vector<c10::IValue>& results) const;
  void refuse_views_by_functions(const std::vector<c10::IValue>& results) const;
  void refuse_views_past_hooks(const std::vector<c10::IValue>& results) const;

  Recorder& recorder_;
  std::vector<JointInput> inputs_;
  std::vector<size_t> view_inputs_;                  // of inputs_: real tensors that are views
  std::unordered_set<const void*> known_functions_;  // nodes that custom operators made
  std::vector<Recorded> recorded_;
  ReleasedNodes released_;
  std::unordered_map<const torch::autograd::Node*, TracedFunction> functions_;
  // A tensor with hooks that the program has put on it or on its node.
  struct Hooked {
    NodePointer node;  // where its gradient arrived then: an operator that writes to the tensor gives it another one
    int place = -1;    // TraceOptions::place
    at::Tensor tensor;
    HookKind kind = HookKind::OnTensor;
    enum class State : uint8_t { Pending, Repeated, Gone } state = State::Pending;
  };
  std::vector<Hooked> hooked_;
  const Operator* outermost_ = nullptr;  // of the operators at work
  int depth_ = 0;                        // of operators at work
  bool below_autograd_ = false;
  size_t saved_tensor_hooks_;
};

}  // namespace vesta::trace
