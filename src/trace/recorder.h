// One trace in progress: the graph so far, the tensors lifted into it, and its guards. One thread uses a recorder at a
// time; after close() nothing may be recorded.
#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <functional>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"
#include "trace/checkpoint.h"
#include "trace/generator.h"
#include "trace/gradients/gradients.h"
#include "trace/tensors/alias.h"
#include "trace/tensors/sym_node.h"
#include "trace/tensors/traced_tensor.h"
#include "trace/trace.h"

namespace vesta::trace {

class Recorder final : public GuardSink, public std::enable_shared_from_this<Recorder> {
 public:
  Recorder();

  graph::Graph& graph() { return *graph_; }
  graph::Guards& guards() override;

  // The recorder of the calling thread's trace, or nullptr.
  static Recorder* current();

  // ---- tensors
  // Throws Unsupported for tensors that cannot be inputs (sparse, quantized, requiring a gradient, ...).
  Alias& add_input(const at::Tensor& real, graph::TensorType type, graph::InputKind kind, std::string name);
  // The alias of any tensor argument of an operator. A real tensor is lifted first.
  Alias& alias_of(const at::Tensor& t);
  // Where the operator at work has an argument that autograd does not follow, the value is a detached one.
  graph::Value* value_of(const at::Tensor& t);
  // The type that torch sees. Its strides are the tensor's, whatever the value's strides are.
  graph::TensorType type_of(const at::Tensor& t);
  Expr offset_of(const at::Tensor& t);
  int64_t identity_of(const at::Tensor& t);

  // The fake tensor that the program gets for an input. It shares the input's alias. A trace with gradients always
  // gives the same one.
  at::Tensor fake_of(const at::Tensor& real);
  bool is_input_fake(const TracedTensorImpl* impl) const { return fakes_.count(impl) != 0; }

  // Gives an input the memory of a tensor that the program has made, as `real.data = made` does. The caller does it in
  // each call. Throws Unsupported where a call would differ from eager's.
  void give_memory(const at::Tensor& real, const at::Tensor& made);

  at::Tensor fresh(graph::Value* value);
  at::Tensor view_of(const at::Tensor& source, std::shared_ptr<const View> view, graph::Value* value, Expr offset);
  // Another tensor object for the same contents, or for the same memory with other pending bits.
  at::Tensor same(const at::Tensor& t);
  at::Tensor same(const at::Tensor& t, ConjNegBits conj_neg);

  // ---- nodes
  graph::Node* add_node(const graph::Op& op, std::vector<graph::Arg> args, std::vector<graph::TensorType> types);
  // Adds a node by name, with the operator's own shape rule.
  graph::Value* emit(std::string_view op, std::vector<graph::Arg> args,
                     std::vector<std::pair<std::string_view, graph::Arg>> named = {});
  // Call it before a node that draws random numbers, and at the end of the trace.
  void check_generator() const { generator_.require_unchanged(); }
  int64_t draws = 0;  // operators that draw random numbers
  int64_t op_count = 0;
  int64_t made = 0;                   // tensors made so far
  std::string source;                 // the outermost operator being traced, for messages
  std::function<std::string()> line;  // the line of the program that is running; may be empty
  std::function<int()> place;         // TraceOptions::place
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max();  // TraceOptions::end
  int64_t memory = std::numeric_limits<int64_t>::max();                                      // TraceOptions::memory
  std::string source_of_node() const;                                                        // `source` and `line`
  std::vector<const Operator*>
      in_functional_form;  // out= operators that run as the composite kernels of their functional counterparts

  // Set in a trace with gradients.
  std::unique_ptr<Gradients> gradients;
  // Throws if `t` needs a gradient in this trace, unless it is a trace with gradients.
  void refuse_gradient(const at::Tensor& t);
  // Call it before an operator is recorded.
  void note_grad_mode();
  bool recorded_in_grad_mode = false;
  void refuse_write(Storage& s);
  CheckpointRegions checkpoints;

  std::unordered_map<const graph::Value*, at::Tensor> known;  // contents that follow from numbers alone
  std::unordered_set<const graph::Value*> zero_tensors;       // values of aten::_efficientzerotensor

  // The first reason why this trace must fail. It is thrown at the end even if the program catches our exceptions.
  std::exception_ptr failure;

  // Set while the backward method of a torch.autograd.Function is traced: contents that were there before, whose values
  // have smaller numbers, may not be written.
  uint32_t first_writable = 0;

  // The backward pass is being traced: it may use no real tensor that the program has not used.
  bool in_backward = false;

  // ---- the end
  struct RealTensor {
    at::Tensor tensor;
    at::Tensor fake;  // the only one: set in a trace with gradients
    std::shared_ptr<Alias> alias;
    std::shared_ptr<Storage> memory;  // its memory when the program began. give_memory() sets another one in `alias`.
    int input = -1;
    std::vector<int> same;  // further inputs that are the same tensor object
  };
  const RealTensor* real_tensor(int input) const;
  // The input's storage_offset(). The graph depends on it from now on.
  int64_t begin_in_storage(int input);
  std::vector<RealTensor*>& reals() { return real_order_; }
  std::vector<std::pair<int, int64_t>> storage_offsets;
  // Ends recording. Symbols and tensors that outlive the trace throw Unsupported from now on.
  std::unique_ptr<graph::Graph> close();

 private:
  friend class RecorderScope;
  at::Tensor make_fake(const RealTensor& entry);
  std::unique_ptr<graph::Graph> graph_;
  std::shared_ptr<ExprContext> context_;  // outlives the graph: a program may print symbolic integers later
  std::unique_ptr<graph::GraphGuards> guards_;
  bool withheld_gradient_ = false;  // a tensor that requires grad was used while gradient mode was off
  std::unordered_map<c10::TensorImpl*, RealTensor> real_;
  std::vector<RealTensor*> real_order_;
  std::unordered_set<const c10::TensorImpl*> fakes_;
  GeneratorState generator_;
};

// Makes a recorder the one of the calling thread while it lives.
class RecorderScope {
 public:
  explicit RecorderScope(Recorder& r);
  ~RecorderScope();
  RecorderScope& operator=(RecorderScope&&) = delete;  // neither copied nor moved

 private:
  Recorder* previous_;
};

// Empty if a program may be traced with this tensor; otherwise the kind of tensor ("a quantized tensor"). On a device
// without a code generator all nodes of a graph are calls into ATen.
std::string why_not_traced(const at::Tensor& t);
// The type of a real tensor, with constant sizes. Throws Unsupported for tensors that Vesta cannot read.
graph::TensorType static_type(const at::Tensor& real);

}  // namespace vesta::trace
