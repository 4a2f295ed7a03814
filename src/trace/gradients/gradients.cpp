#include "trace/gradients/gradients.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <string_view>
#include <typeinfo>

#include "base/check.h"
#include "interop/autograd_node.h"
#include "trace/gradients/joint.h"
#include "trace/operators/arguments.h"
#include "trace/operators/fallback.h"
#include "trace/ops/rows.h"
#include "trace/recorder.h"

namespace vesta::trace {
namespace {

using torch::jit::Stack;

// Marks where the gradient of an input leaves the program's history for the caller's.
struct InputGradient final : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    VESTA_UNSUPPORTED("a backward pass inside the program goes through an input");
  }
};

// While it lives, the thread's calls run autograd's kernels again.
c10::impl::ForceDispatchKeyGuard with_autograd() {
  const auto& keys = c10::impl::tls_local_dispatch_key_set();
  return c10::impl::ForceDispatchKeyGuard(keys.included_,
                                          keys.excluded_ - c10::autograd_dispatch_keyset_with_ADInplaceOrView);
}

bool is_implicit(const Operator& op) { return op.composite == c10::DispatchKey::CompositeImplicitAutograd; }

bool is_real(const at::Tensor& t) { return t.defined() && !traced(t) && !wrapped_number(t); }

bool has_name(const torch::autograd::Node& node, std::string_view name) {
  return std::string_view(typeid(node).name()).find(name) != std::string_view::npos;
}

bool is_input_gradient(const torch::autograd::Node& node) {
  return dynamic_cast<const InputGradient*>(&node) != nullptr;
}

// The node's sequence number, which no other node has. An address may be used again.
const void* number_of(const torch::autograd::Node& node) {
  return reinterpret_cast<const void*>(static_cast<uintptr_t>(node.sequence_nr()));
}

bool has_hooks(torch::autograd::Node& node) {
  return !node.pre_hooks().empty() || !node.post_hooks().empty() || !node.tensor_pre_hooks().empty() ||
         !node.retains_grad_hooks().empty();
}

}  // namespace

Gradients::Gradients(Recorder& r)
    : history(r.graph()),
      recorder_(r),
      saved_tensor_hooks_(at::SavedTensorDefaultHooks::get_tls_state().stack.size()) {}

void Gradients::add_input(const at::Tensor& real, const at::Tensor& fake, bool is_new) {
  if (!is_new) return;
  if (real.is_view()) view_inputs_.push_back(inputs_.size());
  JointInput& in = inputs_.emplace_back(real, fake, static_cast<int>(traced(fake)->identity));
  if (!real.requires_grad()) return;
  history.add_input(recorder_.graph().inputs[static_cast<size_t>(in.input)].value);
  if (real.is_leaf()) {
    fake.set_requires_grad(true);
    in.history = torch::autograd::impl::gradient_edge(fake);
  } else {
    NodePointer node = make_autograd_node<InputGradient>();
    const uint32_t n = node->add_input_metadata(fake);
    in.history = torch::autograd::Edge(std::move(node), n);
    torch::autograd::impl::set_gradient_edge(fake, in.history);
  }
}

void Gradients::refuse_hidden_state() const {
  if (c10::InferenceMode::is_enabled()) VESTA_UNSUPPORTED("inference mode inside a program that records gradients");
  if (torch::autograd::get_current_graph_task_id() != -1)
    VESTA_UNSUPPORTED("a backward pass inside a program that records gradients");
  if (at::SavedTensorDefaultHooks::get_tls_state().stack.size() != saved_tensor_hooks_)
    VESTA_UNSUPPORTED("hooks on saved tensors (checkpointing) inside a program that records gradients");
}

// ---- operators ----------------------------------------------------------------------------------------------------

void Gradients::call(const Operator& op, Stack& stack) {
  if (below_autograd_) return trace::call(recorder_, op, stack);
  const auto leave = c10::make_scope_exit([&] { --depth_; });
  if (depth_++ == 0) {
    outermost_ = &op;
    refuse_hidden_state();
  }
  run(op, stack);
}

void Gradients::run(const Operator& op, Stack& stack) {
  const bool refused = op.treatment == Treatment::NeedsValue || op.treatment == Treatment::Refuse;
  if (refused) return trace::call(recorder_, op, stack);
  if (!is_implicit(op)) return run_differentiably(op, stack);
  if (op.treatment == Treatment::Special && !op.row->whole_with_gradients) return trace::call(recorder_, op, stack);
  decompose(recorder_, op, stack);
}

// The caller's view would have to get a node of autograd that copies into its base.
void Gradients::refuse_written_views() const {
  for (const size_t i : view_inputs_)
    if (const JointInput& in = inputs_[i]; in.fake.grad_fn() && in.fake.grad_fn() != in.history.function)
      VESTA_UNSUPPORTED("a view that the caller made is written, and its gradient is recorded");
}

void Gradients::run_differentiably(const Operator& op, Stack& stack) {
  std::vector<std::pair<at::Tensor, at::Tensor>> replaced;  // real, fake tensor
  const size_t base = stack.size() - op.arg_count;
  for (size_t i = base; i < stack.size(); ++i) {
    replace_tensors(stack[i], [&](const at::Tensor& t) {
      if (!is_real(t)) return t;
      recorder_.alias_of(t);
      replaced.emplace_back(t, recorder_.fake_of(t));
      return replaced.back().second;
    });
  }
  recorded_.push_back(
      {.first = at::sequence_number::peek(), .op = outermost_, .place = recorder_.place ? recorder_.place() : -1});
  history.begin(op, c10::ArrayRef<c10::IValue>(stack).slice(base));
  {
    const auto below = c10::make_scope_exit([&, was = std::exchange(below_autograd_, true)] { below_autograd_ = was; });
    const auto autograd = with_autograd();
    op.handle.callBoxed(stack);
  }
  history.end(op, c10::ArrayRef<c10::IValue>(stack).slice(base));
  recorded_.back().end = at::sequence_number::peek();
  for (const auto& [real, fake] : replaced)
    if (fake.requires_grad() != real.requires_grad())
      VESTA_UNSUPPORTED("a captured tensor begins to require a gradient");
  refuse_written_views();
  for (size_t i = base; i < stack.size(); ++i) {
    replace_tensors(stack[i], [&](const at::Tensor& t) {
      if (op.custom && t.requires_grad()) known_functions_.insert(number_of(*t.grad_fn()));
      for (const auto& [real, fake] : replaced)
        if (fake.is_same(t)) return real;
      return t;
    });
  }
}

// ---- the end ------------------------------------------------------------------------------------------------------

// Throws where the compiled program would not do what eager's autograd does. False: the graph's nodes have other
// derivatives than a function of the program's own.
bool Gradients::check_history(const std::vector<c10::IValue>& results) const {
  bool is_differentiable = true;
  std::vector<NodePointer> open;
  std::unordered_set<const torch::autograd::Node*> seen;
  const auto follow = [&](const NodePointer& node) {
    if (node && seen.insert(node.get()).second) open.push_back(node);
  };
  const auto is_fake = [&](const at::Tensor& t) {
    return std::any_of(inputs_.begin(), inputs_.end(), [&](const JointInput& input) { return input.fake.is_same(t); });
  };
  const auto start = [&](const at::Tensor& t) {
    if (!t.requires_grad() || is_released(t, released_.nodes)) return;
    if (!torch::autograd::impl::hooks(t).empty() || torch::autograd::impl::post_acc_grad_hooks(t) || t.retains_grad())
      refuse_hook(t.grad_fn().get());
    if (!t.is_leaf()) return follow(t.grad_fn());
    if (traced(t) && !is_fake(t)) VESTA_UNSUPPORTED("a tensor begins to require a gradient inside the program");
  };
  for (const auto& [real, fake, input, history] : inputs_) {
    if (fake.is_leaf() && fake.requires_grad() != real.requires_grad())
      VESTA_UNSUPPORTED("requires_grad of an input changes");
    // Hooks and retained gradients of the caller's would follow the input into history that the compiled program does
    // not have.
    const bool written = real.requires_grad() && !real.is_leaf() && !is_input_gradient(*fake.grad_fn());
    if (written && (real.retains_grad() || !torch::autograd::impl::hooks(real).empty()))
      VESTA_UNSUPPORTED("an input with a hook or a retained gradient is written");
    start(fake);
  }
  for (const c10::IValue& v : results)
    if (v.isTensor() && v.toTensor().defined()) start(v.toTensor());
  while (!open.empty()) {
    const auto node = std::move(open.back());
    open.pop_back();
    if (has_hooks(*node)) refuse_hook(node.get());
    // A walk runs the function's own backward, which for one in C++ is all that it does.
    const bool in_python = has_name(*node, "6PyNode");
    if ((in_python || has_name(*node, "7CppNode")) && !known_functions_.contains(number_of(*node))) {
      if (in_python && !functions_.contains(node.get()))
        VESTA_UNSUPPORTED("a custom autograd.Function ({})", node->name());
      is_differentiable = false;
    }
    if (const auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node.get())) start(leaf->variable);
    for (const torch::autograd::Edge& edge : node->next_edges()) follow(edge.function);
  }
  return is_differentiable;
}

void Gradients::add_function(const std::vector<at::Tensor>& results, bool fills_zeros) {
  std::vector<at::Tensor> own;
  for (const at::Tensor& t : results)
    if (t.requires_grad() && t.grad_fn() && has_name(*t.grad_fn(), "6PyNode") &&
        !functions_.contains(t.grad_fn().get()))
      own.push_back(t);
  if (own.empty()) return;
  const NodePointer node = own.front().grad_fn();
  for (const at::Tensor& t : own)
    if (t.grad_fn() != node)
      VESTA_UNSUPPORTED("results of a custom autograd.Function ({}) in one memory", node->name());
  functions_.emplace(node.get(), TracedFunction(recorder_, node, own, fills_zeros));
}

const TracedFunction* Gradients::function_of(const torch::autograd::Node& node) const {
  const auto it = functions_.find(&node);
  return it == functions_.end() ? nullptr : &it->second;
}

void Gradients::add_hook(const at::Tensor& tensor) {
  hooked_.emplace_back(torch::autograd::impl::gradient_edge(tensor).function, recorder_.place ? recorder_.place() : -1);
}

void Gradients::refuse_hook(const torch::autograd::Node* node) const {
  // In-place operators move some hooks to another node.
  auto it = std::ranges::find(hooked_, node, [](const auto& h) { return h.first.get(); });
  if (it == hooked_.end()) it = hooked_.begin();
  if (it == hooked_.end()) VESTA_UNSUPPORTED("a hook on a tensor of a program that records gradients");
  throw GradientNotTraced("a tensor with a hook", "autograd calls the hook after the compiled function", it->second);
}

std::vector<at::Tensor> Gradients::run_backward(const InnerBackward& call, PassEvents& events) {
  const at::AutoGradMode mode(call.creates_graph);
  const auto source = c10::make_scope_exit([&, was = recorder_.source] { recorder_.source = was; });
  const auto below = c10::make_scope_exit(
      [&, was = std::exchange(below_autograd_, below_autograd_ || !call.creates_graph)] { below_autograd_ = was; });
  return trace::run_backward(recorder_, call, inputs_, released_, events);
}

// A result that a torch.autograd.Function has made as a view of another result, or of an input, has the function's
// history. A call of the compiled program would make it as a plain view, whose gradient is that of what it views.
void Gradients::refuse_views_by_functions(const std::vector<c10::IValue>& results) const {
  for (size_t i = 0; i < results.size(); ++i) {
    if (recorder_.graph().outputs[i].kind == graph::OutputKind::Fresh) continue;
    if (!results[i].isTensor() || !results[i].toTensor().defined()) continue;
    const at::Tensor& t = results[i].toTensor();
    if (!t.requires_grad() || !t.is_view()) continue;
    const auto* const meta = torch::autograd::impl::get_view_autograd_meta(t);
    if (!meta->has_bw_view() || meta->get_creation_meta() != torch::autograd::CreationMeta::IN_CUSTOM_FUNCTION)
      continue;
    const TracedFunction* function = nullptr;
    for_each_node({t.grad_fn()}, {}, [&](const NodePointer& n) { function = function ? function : function_of(*n); });
    throw GradientNotTraced(function ? function->node()->name() : t.grad_fn()->name(),
                            "its result is a view of a tensor that the program has as well",
                            function ? function->place() : -1);
  }
}

graph::Joint Gradients::add_backward(const std::vector<c10::IValue>& results) {
  const auto below = c10::make_scope_exit([&, was = std::exchange(below_autograd_, true)] { below_autograd_ = was; });
  {
    const auto autograd = with_autograd();
    if (!check_history(results)) history.part();
    refuse_views_by_functions(results);
  }
  const bool is_whole = history.is_whole(results);
  try {
    graph::Joint joint = trace::add_backward(recorder_, results, inputs_, released_);
    joint.is_differentiable = is_whole;
    return joint;
  } catch (const FormulaFailed& e) {
    auto after = std::ranges::upper_bound(recorded_, e.sequence_number, {}, &Recorded::first);
    const bool is_operator = after != recorded_.begin() && e.sequence_number < (--after)->end;
    if (!is_operator) throw GradientNotTraced(e.node, e.what(), -1);  // of a function of the program's own
    const Recorded& from = *after;
    throw GradientNotTraced(from.op->handle.schema().name(), e.what(), from.place);
  }
}

}  // namespace vesta::trace
