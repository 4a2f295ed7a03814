#include "capture/python/tensors/inner_backward.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/ones_like.h>
#include <torch/csrc/autograd/python_cpp_function.h>
#include <torch/csrc/autograd/python_function.h>
#include <torch/csrc/autograd/python_variable.h>

#include "capture/python/tensors/guarded.h"
#include "trace/gradients/inner_backward.h"

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

}  // namespace

std::optional<BackwardGradients> trace_backward(const BackwardCall& call) {
  return guarded([&]() -> std::optional<BackwardGradients> {
    const trace::InnerGradients found = trace::run_backward({.results = tensors_of(call.results),
                                                             .tangents = tensors_of(call.tangents),
                                                             .inputs = tensors_of(call.inputs),
                                                             .accumulates = call.accumulates,
                                                             .keeps_graph = call.keeps_graph,
                                                             .creates_graph = call.creates_graph,
                                                             .allows_unused = call.allows_unused});
    BackwardGradients out;
    for (const auto& [leaf, gradient] : found.leaves) out.leaves.push_back({object_of(leaf), object_of(gradient)});
    for (const at::Tensor& t : found.captured) out.captured.push_back(object_of(t));
    return out;
  });
}

std::optional<Object> tangent_for(PyObject* result, PyObject* given) {
  bool decided = true;
  Object out = Object::take(guarded([&]() -> PyObject* {
    const at::Tensor& t = THPVariable_Unpack(result);
    if (given != Py_None) {
      const at::Tensor& g = THPVariable_Unpack(given);
      decided = t.sym_sizes() == g.sym_sizes() && t.is_complex() == g.is_complex();
      return Py_NewRef(given);
    }
    if (!trace::Recorder::current()->gradients)
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
      if (!THPVariable_Check(x) || trace::traced(THPVariable_Unpack(x))) {
        PyTuple_SET_ITEM(out.get(), i, Py_NewRef(x));
        continue;
      }
      trace::Recorder* const r = trace::Recorder::current();
      r->alias_of(THPVariable_Unpack(x));
      PyTuple_SET_ITEM(out.get(), i, THPVariable_Wrap(r->fake_of(THPVariable_Unpack(x))));
    }
    return out.release();
  });
}

bool trace_function(PyObject* result) {
  const auto done = guarded([&]() -> std::optional<bool> {
    std::vector<at::Tensor> tensors;
    const bool one = THPVariable_Check(result);
    for (Py_ssize_t i = 0; !one && PyTuple_Check(result) && i < PyTuple_GET_SIZE(result); ++i)
      if (PyObject* x = PyTuple_GET_ITEM(result, i); THPVariable_Check(x)) tensors.push_back(THPVariable_Unpack(x));
    if (one) tensors.push_back(THPVariable_Unpack(result));
    bool fills_zeros = true;
    for (const at::Tensor& t : tensors) {
      const Object node = Object::take(t.grad_fn() ? torch::autograd::functionToPyObject(t.grad_fn()) : nullptr);
      if (node && PyObject_TypeCheck(node.get(), reinterpret_cast<PyTypeObject*>(THPFunctionClass)))
        fills_zeros = reinterpret_cast<const THPFunction*>(node.get())->materialize_grads;
    }
    trace::Recorder::current()->gradients->add_function(tensors, fills_zeros);
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
