#include "capture/python/tensors/inner_backward.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/ones_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/python_cpp_function.h>
#include <torch/csrc/autograd/python_function.h>
#include <torch/csrc/autograd/python_variable.h>

#include "base/check.h"
#include "capture/python/tensors/guarded.h"
#include "capture/python/tensors/leaf_hooks.h"
#include "trace/gradients/inner_backward.h"
#include "trace/tensors/wrapped.h"

namespace vesta::capture {
namespace {

std::vector<at::Tensor> tensors_of(const std::vector<PyObject*>& objects) {
  std::vector<at::Tensor> out;
  for (PyObject* x : objects) out.push_back(x == Py_None ? at::Tensor() : THPVariable_Unpack(x));
  return out;
}

Object object_of(const at::Tensor& t) {
  return t.defined() ? Object::take(THPVariable_Wrap(t)) : Object::share(Py_None);
}

// The fake tensor of a tensor of the program.
at::Tensor as_fake(const at::Tensor& t) {
  if (trace::traced(t) || trace::is_wrapped(t)) return t;
  trace::Recorder* const r = trace::Recorder::current();
  r->alias_of(t);
  return r->fake_of(t);
}

class Events final : public trace::PassEvents {
 public:
  explicit Events(BackwardEvents& events) : events_(events) {}

  void run_hook(const torch::autograd::FunctionPreHook& hook, torch::autograd::variable_list& gradients) override {
    size_t index = 0;
    PyObject* const functions = functions_of(hook, &index);
    if (!functions || index >= gradients.size())
      VESTA_UNSUPPORTED("a C++ hook on a tensor of a backward pass inside the program");
    gradients[index] = hooked(nullptr, functions, gradients[index]);
  }

  void run_node_hook(const torch::autograd::FunctionPreHook& hook, torch::autograd::variable_list& gradients) override {
    run_node_hook(node_functions_of(hook), gradients, nullptr);
  }

  void run_node_hook(const torch::autograd::FunctionPostHook& hook, torch::autograd::variable_list& gradients,
                     const torch::autograd::variable_list& arrived) override {
    run_node_hook(node_functions_of(hook), gradients, &arrived);
  }

  at::Tensor hooked(const at::Tensor& leaf, const at::Tensor& gradient) override {
    const LeafHooks hooks = hooks_of(leaf);
    if (hooks.others) VESTA_UNSUPPORTED("a C++ hook on the gradient of a leaf, such as DistributedDataParallel's");
    at::Tensor out = gradient;
    const Object object = object_of(leaf);
    for (PyObject* dict : hooks.before) out = hooked(trace::traced(leaf) ? nullptr : object.get(), dict, out);
    return out;
  }

  void accumulate(const at::Tensor& leaf, const at::Tensor& gradient) override {
    const LeafHooks hooks = hooks_of(leaf);
    if (!events_.accumulate(object_of(leaf).get(), object_of(gradient).get(), hooks.after))
      throw pybind11::error_already_set();
  }

 private:
  static Object tuple_of(const torch::autograd::variable_list& tensors) {
    Object out = Object::take(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
    for (size_t i = 0; out && i < tensors.size(); ++i)
      PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), object_of(tensors[i]).release());
    return out;
  }

  void run_node_hook(PyObject* functions, torch::autograd::variable_list& gradients,
                     const torch::autograd::variable_list* arrived) {
    if (!functions) VESTA_UNSUPPORTED("a C++ hook on a node of a backward pass inside the program");
    const Object given = tuple_of(gradients), before = arrived ? tuple_of(*arrived) : Object();
    const Object out = Object::take(events_.node_hooked(functions, given.get(), before.get()));
    if (!out) throw pybind11::error_already_set();
    for (size_t i = 0; i < gradients.size(); ++i) {
      PyObject* const x = PyTuple_GET_ITEM(out.get(), static_cast<Py_ssize_t>(i));
      gradients[i] = x == Py_None ? at::Tensor() : as_fake(THPVariable_Unpack(x));
    }
  }

  at::Tensor hooked(PyObject* leaf, PyObject* dict, const at::Tensor& gradient) {
    const Object out = Object::take(events_.hooked(leaf, dict, object_of(gradient).get()));
    if (!out) throw pybind11::error_already_set();
    return out.get() == Py_None ? at::Tensor() : as_fake(THPVariable_Unpack(out.get()));
  }

  BackwardEvents& events_;
};

}  // namespace

std::optional<std::vector<Object>> trace_backward(const BackwardCall& call, BackwardEvents& events) {
  return guarded([&]() -> std::optional<std::vector<Object>> {
    Events adapted(events);
    const std::vector<at::Tensor> found = trace::run_backward({.results = tensors_of(call.results),
                                                               .tangents = tensors_of(call.tangents),
                                                               .inputs = tensors_of(call.inputs),
                                                               .accumulates = call.accumulates,
                                                               .keeps_graph = call.keeps_graph,
                                                               .creates_graph = call.creates_graph,
                                                               .allows_unused = call.allows_unused},
                                                              adapted);
    std::vector<Object> out;
    for (const at::Tensor& t : found) out.push_back(object_of(t));
    return out;
  });
}

bool may_replace_gradient(PyObject* gradient, PyObject* returned) {
  const auto done = guarded([&]() -> std::optional<bool> {
    if (!THPVariable_Check(gradient) || !THPVariable_Check(returned))
      VESTA_UNSUPPORTED("a hook returns something else than a gradient");
    torch::autograd::check_variable_result(THPVariable_Unpack(gradient), as_fake(THPVariable_Unpack(returned)), "hook");
    return true;
  });
  return done.has_value();
}

using HookKind = trace::Gradients::HookKind;

bool note_hook(PyObject* tensor, bool keeps_gradient) {
  const auto done = guarded([&]() -> std::optional<bool> {
    trace::Recorder::current()->gradients->add_hook(THPVariable_Unpack(tensor),
                                                    keeps_gradient ? HookKind::KeepsGradient : HookKind::OnTensor);
    return true;
  });
  return done.has_value();
}

namespace {

// torch's object of a torch.autograd.Function owns its node since 2.13 or so, and knew it by a weak pointer before.
template <class F>
NodePointer node_of(const F& function) {
  if constexpr (requires { function.cdata.lock(); })
    return function.cdata.lock();
  else
    return function.cdata;
}

// The node of a torch.autograd.Function; null: it is another object.
NodePointer function_node(PyObject* node) {
  if (!PyObject_TypeCheck(node, &THPFunctionType)) return {};
  return node_of(*reinterpret_cast<const THPFunction*>(node));
}

}  // namespace

bool note_node_hook(PyObject* node) {
  const auto done = guarded([&]() -> std::optional<bool> {
    const NodePointer function = function_node(node);
    trace::Gradients& gradients = *trace::Recorder::current()->gradients;
    if (!function || !gradients.function_of(*function))
      VESTA_UNSUPPORTED("a hook on a node of a torch.autograd.Function that the program has not called");
    gradients.add_hook(function);
    return true;
  });
  return done.has_value();
}

bool has_function_node(PyObject* tensor) {
  const auto node = THPVariable_Unpack(tensor).grad_fn();
  if (!node) return true;
  const Object object = Object::take(torch::autograd::functionToPyObject(node));
  return object && function_node(object.get());
}

std::vector<LaterHooks> later_hooks(const std::vector<PyObject*>& results) {
  std::vector<LaterHooks> out;
  trace::Recorder* const r = trace::Recorder::current();
  if (!r || !r->gradients) return out;
  std::vector<at::Tensor> tensors;
  for (PyObject* x : results)
    if (THPVariable_Check(x)) tensors.push_back(THPVariable_Unpack(x));
  for (const auto& [tensor, kind] : r->gradients->pending_hooks(tensors)) {
    LaterHooks& hooks = out.emplace_back(LaterHooks{object_of(tensor), kind == HookKind::OnNode, {}});
    const auto add = [&](PyObject* functions) {
      const Object all = Object::take(functions ? PyDict_Values(functions) : nullptr);
      for (Py_ssize_t i = 0; all && i < PyList_GET_SIZE(all.get()); ++i)
        hooks.functions.push_back(Object::share(PyList_GET_ITEM(all.get(), i)));
    };
    torch::autograd::Node& node = *tensor.grad_fn();
    if (hooks.of_node) {
      for (const auto& hook : node.post_hooks()) add(node_functions_of(*hook));
      continue;
    }
    for (const auto& hook : node.tensor_pre_hooks()) {
      size_t index = 0;
      if (PyObject* const functions = functions_of(*hook, &index);
          functions && static_cast<int64_t>(index) == tensor.output_nr())
        add(functions);
    }
  }
  return out;
}

void repeat_hooks(const LaterHooks& hooks) {
  trace::Recorder::current()->gradients->repeat_hooks(THPVariable_Unpack(hooks.tensor.get()),
                                                      hooks.of_node ? HookKind::OnNode : HookKind::OnTensor,
                                                      !hooks.functions.empty());
}

void repeat_retained(PyObject* tensor) {
  trace::Recorder* const r = trace::Recorder::current();
  if (r && r->gradients) r->gradients->repeat_hooks(THPVariable_Unpack(tensor), HookKind::KeepsGradient, true);
}

bool keeps_gradient(PyObject* tensor) { return is_leaf(tensor) || retains_gradient(tensor); }
bool is_leaf(PyObject* tensor) { return THPVariable_Unpack(tensor).is_leaf(); }
Object viewed_by_leaf(PyObject* view) {
  const at::Tensor& t = THPVariable_Unpack(view);
  return t.is_view() && t.is_leaf() ? Object::take(THPVariable_Wrap(t._base())) : Object();
}
bool retains_gradient(PyObject* tensor) { return THPVariable_Unpack(tensor).retains_grad(); }

std::optional<Object> tangent_for(PyObject* result, PyObject* given) {
  bool decided = true;
  Object out = Object::take(guarded([&]() -> PyObject* {
    const at::Tensor& t = THPVariable_Unpack(result);
    if (given != Py_None) {
      const at::Tensor& g = THPVariable_Unpack(given);
      decided = t.sym_sizes() == g.sym_sizes() && t.is_complex() == g.is_complex();
      return Py_NewRef(given);
    }
    if (!trace::Recorder::current()->gradients && !trace::is_wrapped(t))
      throw trace::NeedsGradients("needs gradients: the program runs a backward pass");
    if (!t.requires_grad()) return Py_NewRef(Py_None);
    decided = t.is_floating_point() && t.sym_numel() == 1;
    return decided ? THPVariable_Wrap(at::ones_like(t, {}, at::MemoryFormat::Preserve)) : Py_NewRef(Py_None);
  }));
  if (!decided) return std::nullopt;
  return out;
}

PyObject* fake_arguments(PyObject* const* arguments, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    Object out = Object::take(PyTuple_New(n));
    for (Py_ssize_t i = 0; out && i < n; ++i) {
      PyObject* x = arguments[i];
      PyTuple_SET_ITEM(out.get(), i,
                       THPVariable_Check(x) ? THPVariable_Wrap(as_fake(THPVariable_Unpack(x))) : Py_NewRef(x));
    }
    return out.release();
  });
}

static std::vector<at::Tensor> tensors_of(PyObject* x) {
  std::vector<at::Tensor> out;
  if (THPVariable_Check(x)) out.push_back(THPVariable_Unpack(x));
  for (Py_ssize_t i = 0; PyTuple_Check(x) && i < PyTuple_GET_SIZE(x); ++i)
    if (PyObject* item = PyTuple_GET_ITEM(x, i); THPVariable_Check(item)) out.push_back(THPVariable_Unpack(item));
  return out;
}

bool trace_function(PyObject* arguments, PyObject* result) {
  const auto done = guarded([&]() -> std::optional<bool> {
    const std::vector<at::Tensor> tensors = tensors_of(result);
    bool fills_zeros = true;
    for (const at::Tensor& t : tensors) {
      const Object node = Object::take(t.grad_fn() ? torch::autograd::functionToPyObject(t.grad_fn()) : nullptr);
      if (node && PyObject_TypeCheck(node.get(), &THPFunctionType))
        fills_zeros = reinterpret_cast<const THPFunction*>(node.get())->materialize_grads;
    }
    trace::Recorder::current()->gradients->add_function(tensors_of(arguments), tensors, fills_zeros);
    return true;
  });
  return done.has_value();
}

bool require_gradient(PyObject* leaf, bool required) {
  const auto done = guarded([&]() -> std::optional<bool> {
    const at::Tensor& real = THPVariable_Unpack(leaf);
    if (trace::Recorder* const r = trace::Recorder::current()) {
      r->alias_of(real);
      r->fake_of(real).set_requires_grad(required);
    }
    real.set_requires_grad(required);
    return true;
  });
  return done.has_value();
}

PyObject* accumulated(PyObject* gradient, PyObject* added, bool creates_graph) {
  return guarded([&] {
    const at::AutoGradMode mode(creates_graph);
    at::Tensor sum = THPVariable_Unpack(gradient);
    const at::Tensor& more = THPVariable_Unpack(added);
    if (creates_graph) return THPVariable_Wrap(sum.add(more));
    sum.add_(more);
    return Py_NewRef(gradient);
  });
}

bool may_be_gradient(PyObject* leaf, PyObject* gradient) {
  const at::Tensor &a = THPVariable_Unpack(leaf), &b = THPVariable_Unpack(gradient);
  return !b.requires_grad() && a.scalar_type() == b.scalar_type() && a.device() == b.device() &&
         a.sym_sizes() == b.sym_sizes();
}

void put_gradient(PyObject* leaf, PyObject* gradient) {
  THPVariable_Unpack(leaf).mutable_grad() = gradient == Py_None ? at::Tensor() : THPVariable_Unpack(gradient);
}

}  // namespace vesta::capture
