// Symbolic scalars: the objects that take the place of numbers and texts that change from call to call.
//
// Guarantees: arithmetic on one makes another, whose value each call computes again; a comparison is a bool, and a
// guard on its outcome. Anything else that needs the value, C code through the slots of its class too, specializes it:
// the trace ends, and the next one takes the value as a constant. One is only valid in its trace.
#pragma once

#include <Python.h>

namespace vesta::capture {

bool is_symbolic_scalar(PyObject* x);
PyObject* scalar_value(PyObject* x);  // in this call; borrowed
int scalar_source(PyObject* x);
// A new reference, nullptr with an error set.
PyObject* make_symbolic_scalar(PyObject* value, int source);
// x itself if it is one, or the first one in a tuple, list or dict and in those that it holds; borrowed, or nullptr.
PyObject* first_symbolic_scalar(PyObject* x, int depth = 4);

}  // namespace vesta::capture
