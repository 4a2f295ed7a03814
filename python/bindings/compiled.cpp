#include "compiled.h"

#include <ATen/ops/from_blob.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_symnode.h>

#include "interruptible.h"
#include "vesta/detail/function.h"

namespace py = pybind11;

namespace vesta::python {

namespace {

using detail::Call;
using detail::Function;
using detail::InputInfo;
using detail::Results;

// How one positional argument of a call is passed on.
enum class Kind : char { Tensor = 't', Integer = 's', Constant = 'c' };

struct CompiledObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* program;  // runs eager
  PyObject* traced;   // the same program, for calls with traced tensors
  PyObject* weakrefs;
  Function* function;
};

// A constant argument enters the key with its type and value. nullopt if it has no such key.
bool add_constant(PyObject* x, Call& call) {
  call.tag(static_cast<char>(Kind::Constant));
  const auto type = reinterpret_cast<uintptr_t>(Py_TYPE(x));
  call.bytes(&type, sizeof(type));
  if (x == Py_None || PyBool_Check(x)) {
    const auto object = reinterpret_cast<uintptr_t>(x);
    call.bytes(&object, sizeof(object));
    return true;
  }
  if (PyFloat_CheckExact(x)) {
    const double v = PyFloat_AS_DOUBLE(x);
    call.bytes(&v, sizeof(v));
    return true;
  }
  if (PyUnicode_CheckExact(x)) {
    Py_ssize_t n = 0;
    const char* s = PyUnicode_AsUTF8AndSize(x, &n);
    if (!s) {
      PyErr_Clear();
      return false;
    }
    call.bytes(&n, sizeof(n));
    call.bytes(s, static_cast<size_t>(n));
    return true;
  }
  return false;
}

// False if an argument is of a kind that only an eager call takes.
bool flatten(PyObject* const* args, Py_ssize_t n, Call& call) {
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* x = args[i];
    if (THPVariable_Check(x)) {
      call.tag(static_cast<char>(Kind::Tensor));
      call.tensors.push_back(THPVariable_Unpack(x));
    } else if (PyLong_CheckExact(x)) {
      int overflow = 0;
      const int64_t v = PyLong_AsLongLongAndOverflow(x, &overflow);
      if (overflow) return false;
      call.tag(static_cast<char>(Kind::Integer));
      call.integers.push_back(v);
    } else if (!add_constant(x, call)) {
      return false;
    }
  }
  return true;
}

// The results of a program: a code for the container, then one for each element. Values change from call to call;
// constants belong to the variant.
enum Code : int64_t { kSingle, kTuple, kList, kValue, kConstant };

void write_element(py::handle x, std::vector<c10::IValue>& values, std::vector<c10::IValue>& constants) {
  auto constant = [&](c10::IValue v) {
    constants.emplace_back(static_cast<int64_t>(kConstant));
    constants.push_back(std::move(v));
  };
  if (THPVariable_Check(x.ptr())) {
    constants.emplace_back(static_cast<int64_t>(kValue));
    values.emplace_back(THPVariable_Unpack(x.ptr()));
  } else if (torch::is_symint(x)) {
    constants.emplace_back(static_cast<int64_t>(kValue));
    values.emplace_back(x.cast<c10::SymInt>());
  } else if (x.is_none()) {
    constant(c10::IValue());
  } else if (py::isinstance<py::bool_>(x)) {
    constant(x.cast<bool>());
  } else if (py::isinstance<py::int_>(x)) {
    constant(x.cast<int64_t>());
  } else if (py::isinstance<py::float_>(x)) {
    constant(x.cast<double>());
  } else if (py::isinstance<py::str>(x)) {
    constant(x.cast<std::string>());
  } else {
    throw Unsupported("the program returns an object of type " + std::string(py::str(py::type::of(x))) +
                      "; it may return tensors, numbers, strings and None, alone or in one flat tuple or list");
  }
}

void write_results(const py::object& out, std::vector<c10::IValue>& values, std::vector<c10::IValue>& constants) {
  const bool tuple = PyTuple_CheckExact(out.ptr()), list = PyList_CheckExact(out.ptr());
  constants.emplace_back(static_cast<int64_t>(tuple ? kTuple : list ? kList : kSingle));
  if (!tuple && !list) {
    write_element(out, values, constants);
    return;
  }
  for (py::handle x : out) write_element(x, values, constants);
}

PyObject* to_python(const c10::IValue& v) {
  if (v.isTensor()) return THPVariable_Wrap(v.toTensor());
  if (v.isBool()) return PyBool_FromLong(v.toBool());
  if (v.isInt()) return PyLong_FromLongLong(v.toInt());
  if (v.isDouble()) return PyFloat_FromDouble(v.toDouble());
  if (v.isString())
    return PyUnicode_FromStringAndSize(v.toStringRef().data(), static_cast<Py_ssize_t>(v.toStringRef().size()));
  Py_RETURN_NONE;
}

PyObject* read_results(const Results& results) {
  const std::vector<c10::IValue>& codes = *results.constants;
  size_t value = 0, at = 1;
  auto element = [&]() -> PyObject* {
    if (codes[at++].toInt() == kValue) return to_python(results.values[value++]);
    return to_python(codes[at++]);
  };
  const int64_t container = codes[0].toInt();
  if (container == kSingle) return element();
  Py_ssize_t n = 0;
  for (size_t i = 1; i < codes.size(); ++i, ++n) i += codes[i].toInt() == kConstant;
  PyObject* out = container == kTuple ? PyTuple_New(n) : PyList_New(n);
  if (!out) return nullptr;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* x = element();
    if (!x) {
      Py_DECREF(out);
      return nullptr;
    }
    if (container == kTuple) {
      PyTuple_SET_ITEM(out, i, x);
    } else {
      PyList_SET_ITEM(out, i, x);
    }
  }
  return out;
}

// Sets the Python error for the C++ exception that is being handled.
PyObject* raise() {
  try {
    throw;
  } catch (py::error_already_set& e) {
    e.restore();
  } catch (const std::exception& e) {
    // Vesta's own types are registered with the module (errors.cpp). Any other type becomes torch's RuntimeError.
    py::set_error(py::module_::import("vesta.errors")
                      .attr("_python_type")(dynamic_cast<const UserError*>(&e)       ? "UserError"
                                            : dynamic_cast<const NeedsValue*>(&e)    ? "NeedsValue"
                                            : dynamic_cast<const Unsupported*>(&e)   ? "Unsupported"
                                            : dynamic_cast<const InternalError*>(&e) ? "InternalError"
                                                                                     : "RuntimeError"),
                  e.what());
  }
  return nullptr;
}

PyObject* call_compiled(PyObject* self, PyObject* const* args, size_t flags, PyObject* keywords) {
  auto* object = reinterpret_cast<CompiledObject*>(self);
  const Py_ssize_t n = PyVectorcall_NARGS(flags);
  if (keywords && PyTuple_GET_SIZE(keywords) > 0) {
    PyErr_SetString(PyExc_TypeError, "a compiled graph takes positional arguments only");
    return nullptr;
  }
  try {
    Call call;
    if (!flatten(args, n, call)) return PyObject_Vectorcall(object->program, args, static_cast<size_t>(n), nullptr);
    auto program = [&](const std::vector<c10::IValue>& leaves, Results& results, std::vector<c10::IValue>& constants) {
      py::gil_scoped_acquire gil;
      std::vector<py::object> traced;
      size_t tensor = 0, integer = call.tensors.size();
      for (Py_ssize_t i = 0; i < n; ++i) {
        if (THPVariable_Check(args[i])) {
          traced.push_back(py::reinterpret_steal<py::object>(THPVariable_Wrap(leaves[tensor++].toTensor())));
        } else if (PyLong_CheckExact(args[i])) {
          traced.push_back(py::cast(leaves[integer++].toSymInt()));
        } else {
          traced.push_back(py::reinterpret_borrow<py::object>(args[i]));
        }
      }
      std::vector<PyObject*> raw;
      for (const py::object& o : traced) raw.push_back(o.ptr());
      PyObject* out = PyObject_Vectorcall(object->traced, raw.data(), raw.size(), nullptr);
      if (!out) throw py::error_already_set();
      write_results(py::reinterpret_steal<py::object>(out), results.values, constants);
    };
    Results results;
    results.values = detail::borrow_values();
    bool compiled = false;
    {
      torch::PyWarningHandler warnings;
      try {
        const py::gil_scoped_release release;
        compiled = object->function->run(call, program, results);
      } catch (...) {
        warnings.set_in_exception();
        throw;
      }
    }
    if (!compiled) {
      const detail::Function::EagerRun measured(*object->function, call);
      return PyObject_Vectorcall(object->program, args, static_cast<size_t>(n), nullptr);
    }
    PyObject* out = read_results(results);
    detail::return_values(std::move(results.values));
    return out;
  } catch (...) {
    return raise();
  }
}

// The symbolic number for which python_arg_parser made this tensor; nullopt for other tensors.
std::optional<c10::Scalar> number_of(const at::Tensor& t) {
  py::gil_scoped_acquire gil;
  const auto tensor = py::reinterpret_steal<py::object>(THPVariable_Wrap(t));
  if (!py::hasattr(tensor, "_wrapped_number")) return std::nullopt;
  const py::object number = tensor.attr("_wrapped_number");
  if (torch::is_symint(number)) return c10::Scalar(number.cast<c10::SymInt>());
  if (torch::is_symfloat(number)) return c10::Scalar(number.cast<c10::SymFloat>());
  if (torch::is_symbool(number)) return c10::Scalar(number.cast<c10::SymBool>());
  return std::nullopt;
}

InputInfo to_input(const ArgumentInfo& a) {
  InputInfo i;
  i.name = a.name;
  i.parameter = a.parameter;
  i.dynamic = a.dynamic;
  i.symbol_label = a.label;
  i.dynamic_given = !a.dynamic.empty();
  return i;
}

int clear(PyObject* self) {
  Py_CLEAR(reinterpret_cast<CompiledObject*>(self)->program);
  Py_CLEAR(reinterpret_cast<CompiledObject*>(self)->traced);
  return 0;
}

void dealloc(PyObject* self) {
  auto* object = reinterpret_cast<CompiledObject*>(self);
  PyObject_GC_UnTrack(self);
  if (object->weakrefs) PyObject_ClearWeakRefs(self);
  clear(self);
  delete object->function;
  Py_TYPE(self)->tp_free(self);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<CompiledObject*>(self)->program);
  Py_VISIT(reinterpret_cast<CompiledObject*>(self)->traced);
  return 0;
}

PyObject* report(PyObject* self, PyObject*) {
  try {
    return py::cast(reinterpret_cast<CompiledObject*>(self)->function->report()).release().ptr();
  } catch (...) {
    return raise();
  }
}

PyObject* wait(PyObject* self, PyObject* args) {
  double seconds = -1;
  if (!PyArg_ParseTuple(args, "|d", &seconds)) return nullptr;
  try {
    return PyBool_FromLong(wait_or_raise(seconds, [&](auto end) {
      const py::gil_scoped_release release;
      return reinterpret_cast<CompiledObject*>(self)->function->wait(end);
    }));
  } catch (...) {
    return raise();
  }
}

PyObject* reset(PyObject* self, PyObject*) {
  reinterpret_cast<CompiledObject*>(self)->function->reset();
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"report", report, METH_NOARGS, "What was compiled and what ran eager: a FunctionReport."},
    {"wait", wait, METH_VARARGS, "Waits so many seconds for its compiles in the background; False: time ran out."},
    {"reset", reset, METH_NOARGS, "Forgets every compiled variant."},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};

void ready_type() {
  type.tp_name = "vesta._C.CompiledFunction";
  type.tp_basicsize = sizeof(CompiledObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC;
  type.tp_doc = "A callable on tensors, ints, floats, bools, strings and None, compiled by Vesta.";
  type.tp_vectorcall_offset = offsetof(CompiledObject, vectorcall);
  type.tp_weaklistoffset = offsetof(CompiledObject, weakrefs);
  type.tp_call = PyVectorcall_Call;
  type.tp_dealloc = dealloc;
  type.tp_traverse = traverse;
  type.tp_clear = clear;
  type.tp_methods = methods;
  if (PyType_Ready(&type) < 0) throw py::error_already_set();
}

py::object compile(py::object program, const std::string& name, Options options,
                   const std::vector<ArgumentInfo>& tensors, const std::vector<ArgumentInfo>& integers,
                   py::object traced) {
  std::vector<InputInfo> tensor_info, integer_info;
  for (const ArgumentInfo& a : tensors) tensor_info.push_back(to_input(a));
  for (const ArgumentInfo& a : integers) integer_info.push_back(to_input(a));
  auto* object = PyObject_GC_New(CompiledObject, &type);
  if (!object) throw py::error_already_set();
  object->vectorcall = call_compiled;
  object->traced = (traced.is_none() ? program : std::move(traced)).release().ptr();
  object->program = program.release().ptr();
  object->weakrefs = nullptr;
  object->function = new Function(name, std::move(options), std::move(tensor_info), std::move(integer_info));
  PyObject_GC_Track(reinterpret_cast<PyObject*>(object));
  return py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(object));
}

at::Tensor hollow_tensor(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, c10::ScalarType dtype,
                         c10::Device device) {
  constexpr uintptr_t kAligned = 4096;                           // as allocators align, and no address of memory
  return at::for_blob(reinterpret_cast<void*>(kAligned), sizes)  // NOLINT(performance-no-int-to-ptr)
      .strides(strides)
      .target_device(device)
      .options(at::device(device).dtype(dtype))
      .make_tensor();
}

}  // namespace

void add_compiled_function(py::module_& m) {
  ready_type();
  detail::set_number_reader(number_of);
  m.attr("CompiledFunction") = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(&type));
  m.def("hollow_tensor", &hollow_tensor, py::arg("sizes"), py::arg("strides"), py::arg("dtype"), py::arg("device"),
        "A tensor at an address where no memory is. For tensors that are only traced.");
  m.def("compile", &compile, py::arg("program"), py::arg("name"), py::arg("options"), py::arg("tensors"),
        py::arg("integers"), py::arg("traced") = py::none(),
        "Wraps `program`, a callable on flat arguments, into a CompiledFunction. `traced`: the same function of its "
        "arguments, for tracing.");
}

}  // namespace vesta::python
