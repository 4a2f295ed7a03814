#include "capture/python/tensors/fused_step.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/python_variable.h>

#include "capture/python/tensors/guarded.h"
#include "trace/ops/fused_step.h"

namespace vesta::capture {
namespace {

std::optional<at::Tensor> tensor_of(PyObject* x) {
  if (!THPVariable_Check(x)) return std::nullopt;
  return THPVariable_Unpack(x);
}

// nullopt: an argument of this type cannot be it. A tensor may stand for a number.
std::optional<c10::IValue> argument_of(const c10::Type& type, PyObject* x) {
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
      return x == Py_None ? std::optional(c10::IValue()) : argument_of(*type.containedType(0), x);
    case c10::TypeKind::TensorType:
      if (auto t = tensor_of(x)) return *std::move(t);
      return std::nullopt;
    case c10::TypeKind::FloatType:
      if (auto t = tensor_of(x)) return *std::move(t);
      if (PyFloat_Check(x)) return PyFloat_AS_DOUBLE(x);
      if (PyLong_CheckExact(x)) return PyLong_AsDouble(x);
      return std::nullopt;
    case c10::TypeKind::BoolType:
      if (!PyBool_Check(x)) return std::nullopt;
      return x == Py_True;
    case c10::TypeKind::ListType: {
      if (!PyList_Check(x) && !PyTuple_Check(x)) return std::nullopt;
      c10::List<at::Tensor> out;
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(x); ++i) {
        auto t = tensor_of(PySequence_Fast_GET_ITEM(x, i));
        if (!t) return std::nullopt;
        out.push_back(*std::move(t));
      }
      return out;
    }
    default: return std::nullopt;
  }
}

}  // namespace

std::optional<bool> trace_fused_step(const std::string& name, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  const auto handle = c10::Dispatcher::singleton().findSchema({"aten::" + name, ""});
  if (!handle) return std::nullopt;
  torch::jit::Stack stack;
  Py_ssize_t used = 0;
  for (const c10::Argument& wanted : handle->schema().arguments()) {
    PyObject* x = nullptr;
    if (used < n && !wanted.kwarg_only()) x = args[used++];
    const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    for (Py_ssize_t i = 0; i < named && !x; ++i)
      if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), wanted.name().c_str()) == 0) {
        x = args[n + i];
        ++used;
      }
    std::optional<c10::IValue> value = x ? argument_of(*wanted.type(), x) : wanted.default_value();
    if (!value) return std::nullopt;
    stack.push_back(*std::move(value));
  }
  if (used != n + (names ? PyTuple_GET_SIZE(names) : 0)) return std::nullopt;
  const auto done = guarded([&]() -> std::optional<bool> {
    trace::run_fused_step(name, std::move(stack));
    return true;
  });
  return done.has_value();
}

}  // namespace vesta::capture
