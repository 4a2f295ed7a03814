#include "capture/python/functions/python_classes.h"

#include "capture/python/frame/hook_off.h"
#include "capture/python/guards/guard.h"
#include "capture/python/object.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/values/class_sets.h"

namespace vesta::capture {
namespace {

// What all classes that class statements make have in common.
struct PythonClass {
  destructor dealloc = nullptr;
  newfunc construct = nullptr;  // calls a __new__ that is written in Python
};

PythonClass find_python_class() {
  const HookOff off;
  const Object globals = Object::take(PyDict_New());
  if (globals) PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins());
  const Object sample = Object::take(
      globals ? PyRun_String("type('S', (), {'__new__': lambda c: None})", Py_eval_input, globals.get(), globals.get())
              : nullptr);
  if (!sample) Py_FatalError("vesta: Python makes no class");
  const auto* type = reinterpret_cast<PyTypeObject*>(sample.get());
  return {type->tp_dealloc, type->tp_new};
}

// __torch_function__ of a class whose operators are a plain tensor's.
PyObject* disabled_torch_function() {
  static PyObject* const found = [] {
    PyObject* c = PyImport_AddModule("torch._C");
    PyObject* f = c ? PyObject_GetAttrString(c, "_disabled_torch_function_impl") : nullptr;
    PyErr_Clear();
    return f;
  }();
  return found;
}

}  // namespace

bool is_python_class(PyTypeObject* type) {
  static const PythonClass made = find_python_class();
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || type->tp_dealloc != made.dealloc) return false;
  // A class that C made from a PyType_Spec may leave the end of its objects to Python, but not their begin.
  return type->tp_new == made.construct || type->tp_new == type->tp_base->tp_new;
}

PyTypeObject* c_base(PyTypeObject* type) {
  while (type && is_python_class(type)) type = type->tp_base;
  return type;
}

bool is_numpy_scalar_type(PyTypeObject* type) {
  return is_derived_from(type, ClassSet::NumpyScalars) && !is_in(type, ClassSet::NumpyContainers) &&
         !is_python_class(type);
}

bool is_numpy_scalar(PyObject* x) { return is_numpy_scalar_type(Py_TYPE(x)); }

bool is_c_iterator(PyObject* x) {
  PyTypeObject* base = c_base(Py_TYPE(x));
  return PyIter_Check(x) && base && base->tp_iternext;
}

bool is_imported(PyObject* module) {
  const Object name = Object::take(PyModule_GetNameObject(module));
  PyObject* found = name ? PyDict_GetItemWithError(PyImport_GetModuleDict(), name.get()) : nullptr;
  PyErr_Clear();
  return found == module;
}

bool is_data(PyObject* x, int depth) {
  if (is_scalar(x) || is_base_tensor(x) || is_symbolic(x)) return true;
  if (is_tensor(x)) {  // a Parameter
    static PyObject* const name = PyUnicode_InternFromString("__torch_function__");
    PyObject* f = _PyType_Lookup(Py_TYPE(x), name);
    return f && f == disabled_torch_function();
  }
  if (PyList_CheckExact(x) || (PyTuple_Check(x) && !is_python_class(Py_TYPE(x)))) {
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(x);
    if (depth == 0 || size > 16) return false;
    for (Py_ssize_t i = 0; i < size; ++i)
      if (!is_data(PySequence_Fast_GET_ITEM(x, i), depth - 1)) return false;
    return true;
  }
  return PySlice_Check(x) || is_of(x, ClassSet::TensorProperties);
}

}  // namespace vesta::capture
