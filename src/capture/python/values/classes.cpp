#include "capture/python/values/classes.h"

#include "capture/python/object.h"

namespace vesta::capture {
namespace {

// What every class that a class statement makes has in common.
struct PythonClass {
  destructor dealloc = nullptr;
  newfunc construct = nullptr;  // that calls a __new__ written in Python
};

// No frame runs: the first question may come from a trace.
PythonClass find_python_class() {
  const ErrorAside error;
  const Object sample = Object::take(
      PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(){s:O}", "Sample", "__new__", Py_None));
  if (!sample) Py_FatalError("vesta: Python makes no class");
  const auto* made = reinterpret_cast<PyTypeObject*>(sample.get());
  return {made->tp_dealloc, made->tp_new};
}

}  // namespace

bool is_python_class(PyTypeObject* type) {
  static const PythonClass made = find_python_class();
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || type->tp_dealloc != made.dealloc) return false;
  // A class that C made from a PyType_Spec may leave the end of its objects to Python, not their begin.
  return type->tp_new == made.construct || type->tp_new == type->tp_base->tp_new;
}

PyTypeObject* c_base(PyTypeObject* type) {
  while (type && is_python_class(type)) type = type->tp_base;
  return type;
}

unsigned version_of(PyTypeObject* type) {
  if (const unsigned version = assigned_version(type)) return version;
  // A lookup assigns one.
  _PyType_Lookup(type, "__vesta_version__"_name);
  return assigned_version(type);
}

bool is_method_wrapper(PyObject* x) {
  static PyTypeObject* const type = [] {
    const Object bound = Object::take(PyObject_GetAttrString(Py_None, "__repr__"));
    return bound ? Py_TYPE(bound.get()) : nullptr;
  }();
  return Py_TYPE(x) == type;
}

PyObject* instance_dict(PyObject* object) {
  if (PyObject** p = _PyObject_GetDictPtr(object); p && *p) return *p;
  if (!Py_TYPE(object)->tp_dictoffset && !(Py_TYPE(object)->tp_flags & (1UL << 4))) return nullptr;
  PyObject* dict = PyObject_GenericGetDict(object, nullptr);
  if (!dict) {
    PyErr_Clear();
    return nullptr;
  }
  Py_DECREF(dict);  // the object owns it
  return dict;
}

bool is_bare(PyObject* x) {
  PyObject** dict = _PyObject_GetDictPtr(x);
  return !dict || !*dict || PyDict_GET_SIZE(*dict) == 0;
}

}  // namespace vesta::capture
