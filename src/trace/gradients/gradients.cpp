#include "trace/gradients/gradients.h"

#include <ATen/Context.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/core/Generator.h>
#include <ATen/core/jit_type.h>
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

bool autocasts() {
  return !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastCPU) ||
         !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastCUDA);
}

bool is_implicit(const Operator& op) { return op.composite == c10::DispatchKey::CompositeImplicitAutograd; }

bool is_real(const at::Tensor& t) { return t.defined() && !traced(t) && !wrapped_number(t); }

const c10::Type* inner_type(const c10::Type* t) {
  const auto* const optional = t->castRaw<c10::OptionalType>();
  return optional ? inner_type(optional->getElementType().get()) : t;
}

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
    : recorder_(r), saved_tensor_hooks_(at::SavedTensorDefaultHooks::get_tls_state().stack.size()) {}

// ---- the tape -----------------------------------------------------------------------------------------------------

TapeTensor Gradients::tensor_of(const at::Tensor& t) const {
  TracedTensorImpl* impl = traced(t);
  if (!impl) impl = traced(recorder_.fake_of(t));
  if (impl->tape_index < 0) VESTA_UNSUPPORTED("a tensor is used whose origin the trace has not recorded");
  return {impl->tape_index};
}

TapeTensor Gradients::name(const at::Tensor& t) {
  TracedTensorImpl* impl = traced(t);
  if (!impl) return tensor_of(t);
  if (impl->tape_index < 0) {
    impl->tape_index = tape_.tensor_count++;
    Storage& s = *impl->alias().storage;
    if (s.backing.defined() && s.tape_index < 0) s.tape_index = impl->tape_index;
  }
  return {impl->tape_index};
}

TapeArg Gradients::to_arg(const c10::IValue& v, const c10::Type& given) const {
  const c10::Type& type = *inner_type(&given);
  if (v.isNone()) return {};
  if (v.isTensor()) {
    const at::Tensor& t = v.toTensor();
    if (!t.defined()) return {};
    if (const auto number = wrapped_number(t)) {
      if (const bool* b = std::get_if<bool>(&*number)) return {*b};
      if (const Expr* e = std::get_if<Expr>(&*number)) return {*e};
      if (const double* d = std::get_if<double>(&*number)) return {*d};
      return {std::get<std::complex<double>>(*number)};
    }
    return {tensor_of(t)};
  }
  if (type.kind() == c10::TypeKind::ScalarTypeType) return {v.toScalarType()};
  if (type.kind() == c10::TypeKind::LayoutType) return {v.toLayout()};
  if (type.kind() == c10::TypeKind::MemoryFormatType) return {v.toMemoryFormat()};
  if (v.isBool()) return {v.toBool()};
  if (v.isInt() || v.isSymInt()) return {to_int(v)};
  if (v.isDouble()) return {v.toDouble()};
  if (v.isSymFloat()) return {v.toSymFloat().guard_float(__FILE__, __LINE__)};
  if (v.isSymBool()) return {v.toSymBool().guard_bool(__FILE__, __LINE__)};
  if (v.isComplexDouble()) {
    const auto c = v.toComplexDouble();
    return {std::complex<double>(c.real(), c.imag())};
  }
  if (v.isString()) return {v.toStringRef()};
  if (v.isDevice()) return {v.toDevice()};
  if (v.isGenerator()) {
    const at::Generator g = v.toGenerator();
    if (g.defined() && !(g == at::globalContext().defaultGenerator(g.device())))
      VESTA_UNSUPPORTED("a random generator other than the default one");
    return {};
  }
  if (v.isList()) {
    const c10::Type& element = type.kind() == c10::TypeKind::ListType
                                   ? *type.castRaw<c10::ListType>()->getElementType()
                                   : static_cast<const c10::Type&>(*c10::AnyType::get());
    TapeArg::List list;
    for (const c10::IValue& e : v.toListRef()) list.push_back(to_arg(e, element));
    return {std::move(list)};
  }
  VESTA_UNSUPPORTED("an argument of type {} in a program that records gradients", v.tagKind());
}

TapeArg Gradients::to_result(const c10::IValue& v) {
  if (v.isTensor() && v.toTensor().defined()) return {name(v.toTensor())};
  if (!v.isList()) return {};
  TapeArg::List list;
  for (const c10::IValue& e : v.toListRef()) list.push_back(to_result(e));
  return {std::move(list)};
}

void Gradients::add_input(const at::Tensor& real, const at::Tensor& fake, bool is_new) {
  if (is_new) {
    JointInput& in = inputs_.emplace_back(real, fake, static_cast<int>(traced(fake)->identity));
    if (real.requires_grad() && real.is_leaf()) {
      fake.set_requires_grad(true);
      in.history = torch::autograd::impl::gradient_edge(fake);
    } else if (real.requires_grad()) {
      NodePointer node = make_autograd_node<InputGradient>();
      const uint32_t n = node->add_input_metadata(fake);
      in.history = torch::autograd::Edge(std::move(node), n);
      torch::autograd::impl::set_gradient_edge(fake, in.history);
    }
  }
  tape_.inputs.push_back(name(fake));
  tape_.input_sizes.push_back(recorder_.type_of(fake).sizes);
}

void Gradients::note_copy(const TracedTensorImpl& original, TracedTensorImpl& copy) {
  if (inside_ || below_autograd_ || original.tape_index < 0) return;
  static const c10::OperatorHandle detach = c10::Dispatcher::singleton().findSchemaOrThrow("aten::detach", "");
  copy.tape_index = tape_.tensor_count++;
  tape_.calls.push_back({.op = detach,
                         .args = {{TapeTensor{original.tape_index}}},
                         .results = {{TapeTensor{copy.tape_index}}},
                         .grad_mode = c10::GradMode::is_enabled()});
}

void Gradients::note_contents(int tensor, const at::Tensor& contents) {
  if (tensor < 0) return;
  static const c10::OperatorHandle copy = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
  tape_.calls.push_back({.op = copy,
                         .args = {{TapeTensor{tensor}}, {tensor_of(contents)}, {false}},
                         .results = {{TapeTensor{tensor}}},
                         .grad_mode = false});
}

// Under autocast the parts of a composite operator are cast, not the operator itself.
bool Gradients::belongs_on_tape(const Operator& op) const {
  if (inside_ || below_autograd_) return false;
  if (op.return_count > 0 && !op.returns_tensors_only) return false;
  return !is_implicit(op) || !autocasts();
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
  if (!inside_) refuse_hidden_state();
  if (!belongs_on_tape(op)) return run(op, stack);

  const c10::FunctionSchema& schema = op.handle.schema();
  // Real tensors are lifted before they get tape indices.
  const size_t base = stack.size() - op.arg_count;
  for (size_t i = base; i < stack.size(); ++i) {
    c10::IValue v = stack[i];
    replace_tensors(v, [&](const at::Tensor& t) {
      if (is_real(t)) recorder_.alias_of(t);
      return t;
    });
  }
  TapeCall noted{.op = op.handle, .args = {}, .results = {}, .grad_mode = c10::GradMode::is_enabled()};
  for (size_t i = 0; i < op.arg_count; ++i)
    noted.args.push_back(to_arg(stack[base + i], *schema.arguments()[i].real_type()));
  const int known = tape_.tensor_count;
  const bool detaches_nothing = op.row && op.row->drops_history && !stack[base].toTensor().requires_grad();
  {
    const auto on_tape = c10::make_scope_exit([&, was = std::exchange(inside_, true)] { inside_ = was; });
    run(op, stack);
  }
  for (size_t i = base; i < stack.size(); ++i) noted.results.push_back(to_result(stack[i]));
  // An operator that returned its argument did nothing, and neither did detach_ on a tensor without history.
  const bool did_something =
      tape_.tensor_count != known || (schema.is_mutable() && !detaches_nothing) || schema.returns().empty();
  if (did_something) tape_.calls.push_back(std::move(noted));
}

void Gradients::run(const Operator& op, Stack& stack) {
  const bool refused = op.treatment == Treatment::NeedsValue || op.treatment == Treatment::Refuse;
  if (refused) return trace::call(recorder_, op, stack);
  if (!is_implicit(op)) return run_differentiably(op, stack);
  if (op.treatment == Treatment::Special && !op.row->whole_with_gradients) return trace::call(recorder_, op, stack);
  decompose(recorder_, op, stack);
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
  {
    const auto below = c10::make_scope_exit([&, was = std::exchange(below_autograd_, true)] { below_autograd_ = was; });
    const auto autograd = with_autograd();
    op.handle.callBoxed(stack);
  }
  for (const auto& [real, fake] : replaced)
    if (fake.requires_grad() != real.requires_grad())
      VESTA_UNSUPPORTED("a captured tensor begins to require a gradient");
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

void Gradients::check_history(const std::vector<c10::IValue>& results, bool for_tape) const {
  std::vector<NodePointer> open;
  std::unordered_set<const torch::autograd::Node*> seen;
  const auto follow = [&](const NodePointer& node) {
    if (node && seen.insert(node.get()).second) open.push_back(node);
  };
  const auto is_fake = [&](const at::Tensor& t) {
    return std::any_of(inputs_.begin(), inputs_.end(), [&](const JointInput& input) { return input.fake.is_same(t); });
  };
  const auto start = [&](const at::Tensor& t) {
    if (!t.requires_grad()) return;
    if (!torch::autograd::impl::hooks(t).empty() || torch::autograd::impl::post_acc_grad_hooks(t))
      VESTA_UNSUPPORTED("a hook on a tensor of a program that records gradients");
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
    if (has_hooks(*node)) VESTA_UNSUPPORTED("a hook on a tensor of a program that records gradients");
    // The tape has operators alone. A walk runs the function's own backward, which for one in C++ is all that it does.
    const bool is_custom = has_name(*node, "6PyNode") || (for_tape && has_name(*node, "7CppNode"));
    if (is_custom && !known_functions_.contains(number_of(*node)))
      VESTA_UNSUPPORTED("a custom autograd.Function ({})", node->name());
    if (const auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node.get())) start(leaf->variable);
    for (const torch::autograd::Edge& edge : node->next_edges()) follow(edge.function);
  }
}

graph::Joint Gradients::add_backward(const std::vector<c10::IValue>& results) {
  const auto below = c10::make_scope_exit([&, was = std::exchange(below_autograd_, true)] { below_autograd_ = was; });
  {
    const auto autograd = with_autograd();
    check_history(results, false);
  }
  return trace::add_backward(recorder_, results, inputs_);
}

Tape Gradients::finish(const std::vector<c10::IValue>& results) {
  {
    const auto below = c10::make_scope_exit([&, was = std::exchange(below_autograd_, true)] { below_autograd_ = was; });
    const auto autograd = with_autograd();
    check_history(results, true);
  }
  for (const c10::IValue& v : results) {
    tape_.outputs.push_back(to_arg(v, *c10::AnyType::get()));
    tape_.outputs_require_grad.push_back(v.isTensor() && v.toTensor().defined() && v.toTensor().requires_grad());
  }
  tape_.context = recorder_.graph().context;
  tape_.symbols = recorder_.graph().symbols;
  return std::move(tape_);
}

}  // namespace vesta::trace
