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

// Those that retain gradients write to their tensors alone, and a tensor that is no result is gone.
bool has_hooks(torch::autograd::Node& node) {
  return !node.pre_hooks().empty() || !node.post_hooks().empty() || !node.tensor_pre_hooks().empty();
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
  history.note(fake);
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
  // A call would save the new memory without the version counter of the tensor that has it.
  if (c10::GradMode::is_enabled())
    for (size_t i = base; i < stack.size(); ++i)
      replace_tensors(stack[i], [](const at::Tensor& t) {
        if (const TracedTensorImpl* impl = traced(t); impl && t.requires_grad() && impl->alias().storage->is_given)
          VESTA_UNSUPPORTED("gradients are recorded for a tensor whose data the program has replaced");
        return t;
      });
  recorded_.push_back({.first = at::sequence_number::peek(),
                       .op = outermost_,
                       .place = recorder_.place ? recorder_.place() : -1,
                       .line = recorder_.line ? recorder_.line() : std::string()});
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

// Whether the node is a torch.autograd.Function's whose hooks autograd calls after the program.
bool Gradients::calls_hooks(const torch::autograd::Node& node) const {
  return std::ranges::any_of(hooked_, [&](const Hooked& h) {
    return h.node.get() == &node && h.kind == HookKind::OnNode && h.state == Hooked::State::Repeated;
  });
}

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
  // The first node on a way to an input that required a gradient for a while: when the compiled program begins, the
  // input has no place in autograd's graph that a result could lead to.
  const torch::autograd::Node* to_begun = nullptr;
  const auto note_begun = [&](const torch::autograd::Node& from, const torch::autograd::Edge& edge) {
    const auto* const leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(edge.function.get());
    if (leaf && !leaf->variable.requires_grad() && is_fake(leaf->variable) &&
        (!to_begun || from.sequence_nr() < to_begun->sequence_nr()))
      to_begun = &from;
  };
  // A call makes it as a leaf, or nobody can see it.
  const auto may_be_leaf = [&](const at::Tensor& t) {
    for (size_t i = 0; i < results.size(); ++i)
      if (results[i].isTensor() && results[i].toTensor().is_same(t))
        return !t.is_view() && recorder_.graph().outputs[i].kind == graph::OutputKind::Fresh;
    return true;
  };
  const auto start = [&](const at::Tensor& t) {
    if (!t.requires_grad() || is_released(t, released_.nodes)) return;
    const bool has_own = !torch::autograd::impl::hooks(t).empty() || torch::autograd::impl::post_acc_grad_hooks(t);
    if (has_own && (t.is_leaf() || !may_have_hooks(*t.grad_fn()))) refuse_hook(t.grad_fn().get());
    if (t.retains_grad() && !may_keep_gradient(t)) refuse_hook(t.grad_fn().get());
    if (!t.is_leaf()) return follow(t.grad_fn());
    if (traced(t) && !is_fake(t) && !may_be_leaf(t))
      VESTA_UNSUPPORTED("a tensor begins to require a gradient inside the program");
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
    if (has_hooks(*node) && !may_have_hooks(*node)) refuse_hook(node.get());
    // A walk runs the function's own backward, which for one in C++ is all that it does.
    const bool in_python = has_name(*node, "6PyNode");
    if ((in_python || has_name(*node, "7CppNode")) && !known_functions_.contains(number_of(*node))) {
      if (in_python && !functions_.contains(node.get()))
        VESTA_UNSUPPORTED("a custom autograd.Function ({})", node->name());
      is_differentiable &= calls_hooks(*node);  // then no part of the pass has the node
    }
    if (const auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node.get())) start(leaf->variable);
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      note_begun(*node, edge);
      follow(edge.function);
    }
  }
  if (to_begun)
    throw FormulaFailed(*to_begun,
                        "a tensor begins to require a gradient inside the program, and a result depends on it");
  return is_differentiable;
}

void Gradients::add_function(const std::vector<at::Tensor>& arguments, const std::vector<at::Tensor>& results,
                             bool fills_zeros) {
  for (const at::Tensor& t : arguments)
    if (traced(t) && t.requires_grad()) history.note(t);
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

void Gradients::add_hook(const at::Tensor& tensor, HookKind kind) {
  hooked_.push_back({.node = torch::autograd::impl::gradient_edge(tensor).function,
                     .place = recorder_.place ? recorder_.place() : -1,
                     .tensor = tensor,
                     .kind = kind});
}

void Gradients::add_hook(const NodePointer& function) {
  const TracedFunction* const made = function_of(*function);
  hooked_.push_back({.node = function,
                     .place = recorder_.place ? recorder_.place() : -1,
                     .tensor = made ? made->results().front() : at::Tensor(),
                     .kind = HookKind::OnNode});
}

std::vector<Gradients::Pending> Gradients::pending_hooks(const std::vector<at::Tensor>& results) const {
  std::vector<Pending> out;
  if (hooked_.empty()) return out;
  std::vector<NodePointer> starts;
  for (const at::Tensor& t : results)
    if (traced(t) && t.requires_grad() && !is_released(t, released_.nodes))
      starts.push_back(torch::autograd::impl::gradient_edge(t).function);
  Ends reached;
  for_each_node(std::move(starts), {}, [&](const NodePointer& n) { reached.insert(n.get()); });
  for (const Hooked& h : hooked_) {
    if (h.state != Hooked::State::Pending || h.kind == HookKind::KeepsGradient) continue;
    if (!h.tensor.defined() || !reached.contains(h.node.get()) || !has_hooks(*h.node)) continue;
    if (h.tensor.is_leaf() || h.tensor.grad_fn() != h.node || !h.node->pre_hooks().empty()) continue;
    if (h.kind == HookKind::OnNode && !function_of(*h.node)->passes_on()) continue;
    const bool is_known =
        std::ranges::any_of(out, [&](const Pending& p) { return p.first.is_same(h.tensor) && p.second == h.kind; });
    if (!is_known) out.emplace_back(h.tensor, h.kind);
  }
  return out;
}

void Gradients::repeat_hooks(const at::Tensor& tensor, HookKind kind, bool any) {
  const NodePointer node = torch::autograd::impl::gradient_edge(tensor).function;
  const Hooked::State state = any ? Hooked::State::Repeated : Hooked::State::Gone;
  bool is_known = false;
  for (Hooked& h : hooked_) {
    if (h.node != node || h.kind != kind || !h.tensor.is_same(tensor)) continue;
    h.state = state;
    is_known = true;
  }
  // An operator that writes to a tensor moves what keeps its gradient to another node.
  if (!is_known) hooked_.push_back({.node = node, .tensor = tensor, .kind = kind, .state = state});
}

// Whether the caller repeats all hooks on the node.
bool Gradients::may_have_hooks(const torch::autograd::Node& node) const {
  bool any = false;
  for (const Hooked& h : hooked_) {
    if (h.node.get() != &node || h.kind == HookKind::KeepsGradient) continue;
    if (h.state == Hooked::State::Pending) return false;
    any = true;
  }
  return any;
}

bool Gradients::may_keep_gradient(const at::Tensor& result) const {
  return std::ranges::any_of(hooked_, [&](const Hooked& h) {
    return h.kind == HookKind::KeepsGradient && h.state == Hooked::State::Repeated && h.tensor.is_same(result);
  });
}

std::vector<HookedResult> Gradients::hooked_results(const std::vector<c10::IValue>& results) const {
  std::vector<HookedResult> out;
  for (const Hooked& h : hooked_) {
    if (h.state != Hooked::State::Repeated) continue;
    const auto it = std::ranges::find_if(
        results, [&](const c10::IValue& v) { return v.isTensor() && v.toTensor().is_same(h.tensor); });
    VESTA_CHECK(it != results.end(), "a tensor whose hooks are repeated is no result");
    if (is_released(h.tensor, released_.nodes)) continue;
    const torch::autograd::Edge edge = torch::autograd::impl::gradient_edge(h.tensor);
    const auto same = std::ranges::find(out, edge, &HookedResult::edge);
    const bool of_node = h.kind == HookKind::OnNode;
    if (same != out.end())
      same->of_node |= of_node;
    else
      out.push_back({.edge = edge, .result = static_cast<size_t>(it - results.begin()), .of_node = of_node});
    // Other results of the node have its history, too.
    for (size_t i = 0; of_node && i < results.size(); ++i) {
      const at::Tensor t = results[i].isTensor() ? results[i].toTensor() : at::Tensor();
      if (!t.defined() || !t.requires_grad() || t.grad_fn() != h.node) continue;
      const torch::autograd::Edge own = torch::autograd::impl::gradient_edge(t);
      if (std::ranges::find(out, own, &HookedResult::edge) == out.end())
        out.push_back({.edge = own, .result = i, .of_node = true});
    }
  }
  return out;
}

// A call makes views of the tensor that their base is: where the way to it passes a hook, the hook would not be called.
void Gradients::refuse_views_past_hooks(const std::vector<c10::IValue>& results) const {
  const std::vector<HookedResult> hooked = hooked_results(results);
  if (hooked.empty()) return;
  const auto is_hooked = [&](const torch::autograd::Node* n) {
    return std::ranges::any_of(hooked, [&](const HookedResult& h) { return h.edge.function.get() == n; });
  };
  for (size_t i = 0; i < results.size(); ++i) {
    const graph::Output& o = recorder_.graph().outputs[i];
    if (o.kind != graph::OutputKind::InputView && o.kind != graph::OutputKind::OutputView) continue;
    const at::Tensor& t = results[i].toTensor();
    if (!t.requires_grad() || t.is_leaf() || is_hooked(t.grad_fn().get())) continue;
    Ends ends;
    if (t.is_view() && t._base().grad_fn()) ends.insert(t._base().grad_fn().get());
    for_each_node({t.grad_fn()}, ends, [&](const NodePointer& n) {
      if (!ends.contains(n.get()) && is_hooked(n.get())) refuse_hook(n.get());
    });
  }
}

void Gradients::refuse_hook(const torch::autograd::Node* node) const {
  // In-place operators move some hooks to another node.
  auto it = std::ranges::find(hooked_, node, [](const Hooked& h) { return h.node.get(); });
  if (it == hooked_.end()) it = hooked_.begin();
  if (it == hooked_.end()) VESTA_UNSUPPORTED("a hook on a tensor of a program that records gradients");
  throw GradientNotTraced("a tensor with a hook", "autograd calls the hook after the compiled function", it->place);
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
    if (may_have_hooks(*t.grad_fn())) continue;  // the call makes its history, too
    const TracedFunction* function = nullptr;
    for_each_node({t.grad_fn()}, {}, [&](const NodePointer& n) { function = function ? function : function_of(*n); });
    throw GradientNotTraced(function ? function->node()->name() : t.grad_fn()->name(),
                            "its result is a view of a tensor that the program has as well",
                            function ? function->place() : -1);
  }
}

const Gradients::Recorded* Gradients::made(uint64_t sequence_number) const {
  const auto after = std::ranges::upper_bound(recorded_, sequence_number, {}, &Recorded::first);
  if (after == recorded_.begin()) return nullptr;
  const Recorded& last = *std::prev(after);
  return sequence_number < last.end ? &last : nullptr;
}

std::string Gradients::line_of(const torch::autograd::Node& node) const {
  const Recorded* const from = made(node.sequence_nr());
  return from ? from->line : std::string();
}

graph::Joint Gradients::add_backward(const std::vector<c10::IValue>& results) {
  const auto below = c10::make_scope_exit([&, was = std::exchange(below_autograd_, true)] { below_autograd_ = was; });
  try {
    {
      const auto autograd = with_autograd();
      if (!check_history(results)) history.part();
      refuse_views_by_functions(results);
      refuse_views_past_hooks(results);
    }
    const std::vector<HookedResult> hooked = hooked_results(results);
    for (const HookedResult& h : hooked) history.note(results[h.result].toTensor());
    for (const c10::IValue& v : results)
      if (v.isTensor() && traced(v.toTensor()) && v.toTensor().is_leaf() && v.toTensor().requires_grad())
        history.note(v.toTensor());
    const bool is_whole = history.is_whole(results);
    graph::Joint joint = trace::add_backward(recorder_, results, inputs_, released_, hooked);
    joint.is_differentiable =
        is_whole && std::ranges::all_of(joint.crossings, [](const graph::Crossing& c) { return c.value; });
    return joint;
  } catch (const FormulaFailed& e) {
    const Recorded* const from = made(e.sequence_number);
    if (!from) throw GradientNotTraced(e.node, e.what(), -1);  // of a function of the program's own
    throw GradientNotTraced(from->op->handle.schema().name(), e.what(), from->place);
  }
}

}  // namespace vesta::trace
