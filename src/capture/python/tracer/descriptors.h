// What attributes of classes are, as far as a lookup of an attribute must know.
#pragma once

#include "capture/python/object.h"

namespace vesta::capture {

inline bool named(PyObject* name, const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; }

// A method or special method that C code implements.
inline bool is_method_of_c(PyObject* f) {
  return Py_TYPE(f) == &PyMethodDescr_Type || Py_TYPE(f) == &PyWrapperDescr_Type;
}

// The C function or other callable that a property calls ("fget", "fset", "fdel"). Empty: `attribute` is no property,
// it has no such part, or the part is a Python function.
Object c_function_of(PyObject* attribute, const char* part);

}  // namespace vesta::capture
