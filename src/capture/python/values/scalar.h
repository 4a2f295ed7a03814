// Scalars: the immutable objects that a guard compares by value. No Python code runs in any of these functions, and
// none leaves an error set.
#pragma once

#include <Python.h>

namespace vesta::capture {

// An int, float, bool, complex, str, bytes, None, Ellipsis or NotImplemented: exactly these types, no subclass.
bool is_scalar(PyObject* x);
// A numpy scalar: immutable, and its class is written in C.
bool is_numpy_scalar(PyObject* x);
bool is_numpy_scalar_type(PyTypeObject* type);
// Two scalars, numpy scalars, ranges or torch.devices of one type that are equal; floats are compared bit for bit.
bool same_scalar(PyObject* a, PyObject* b);

}  // namespace vesta::capture
