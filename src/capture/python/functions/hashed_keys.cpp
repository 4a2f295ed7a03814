#include "capture/python/functions/hashed_keys.h"

#include "capture/python/functions/code_origin.h"
#include "capture/python/object.h"
#include "capture/python/values/classes.h"
#include "capture/python/values/scalar.h"

namespace vesta::capture {
namespace {

// The dataclass decorator made it: it asks the fields, and nothing else.
bool is_of_dataclass(PyCodeObject* code) { return utf8_of(code->co_qualname).starts_with("__create_fn__.<locals>."); }

bool has_fields_of_program(PyObject* x) {
  PyObject* fields = _PyType_Lookup(Py_TYPE(x), "__dataclass_fields__"_name);
  PyObject* field = nullptr;
  Py_ssize_t at = 0;
  while (fields && PyDict_Check(fields) && PyDict_Next(fields, &at, &field, nullptr)) {
    const Object value = Object::take(PyObject_GenericGetAttr(x, field));
    PyErr_Clear();
    if (!value || is_hashed_by_program(value.get())) return true;
  }
  return false;
}

bool is_of_program(PyObject* x, PyObject* f) {
  if (Py_TYPE(f) == &PyMethodDescr_Type) return false;  // written in C
  if (!PyFunction_Check(f)) return true;
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(f));
  if (is_standard_library(code) || is_installed_package(code)) return false;
  return !is_of_dataclass(code) || has_fields_of_program(x);
}

// The __hash__ or __eq__ of the object, or of an item of a tuple, for which `counts` holds.
template <class F>
bool has_hash(PyObject* x, const F& counts) {
  static PyObject* const names[] = {"__hash__"_name, "__eq__"_name};
  if (is_scalar(x)) return false;
  for (Py_ssize_t i = 0; PyTuple_Check(x) && i < PyTuple_GET_SIZE(x); ++i)
    if (has_hash(PyTuple_GET_ITEM(x, i), counts)) return true;
  for (PyObject* name : names) {
    PyObject* f = _PyType_Lookup(Py_TYPE(x), name);
    if (f && f != Py_None && Py_TYPE(f) != &PyWrapperDescr_Type && counts(x, f)) return true;
  }
  return false;
}

bool has_key(PyObject* c, bool (*of_kind)(PyObject*)) {
  if (PyDict_Check(c)) {
    PyObject* key = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(c, &at, &key, nullptr);)
      if (of_kind(key)) return true;
    return false;
  }
  const Object keys = Object::take(PySet_Type.tp_iter(c));  // not by an __iter__ of the program
  while (keys) {
    const Object key = Object::take(Py_TYPE(keys.get())->tp_iternext(keys.get()));
    if (!key || of_kind(key.get())) return static_cast<bool>(key);
  }
  return false;
}

}  // namespace

bool is_hashed_by_program(PyObject* x) {
  return has_hash(x, [](PyObject* o, PyObject* f) { return is_python_class(Py_TYPE(o)) && is_of_program(o, f); });
}

bool is_hashed_by_python(PyObject* x) {
  return has_hash(x, [](PyObject*, PyObject*) { return true; });
}

bool has_keys_of_program(PyObject* c) { return has_key(c, is_hashed_by_program); }
bool has_keys_of_python(PyObject* c) { return has_key(c, is_hashed_by_python); }

}  // namespace vesta::capture
