// A number or text that changes from call to call, while a frame is traced: an object in its place that has no value.
// Arithmetic on numbers makes further ones, whose sources are computed at every call; a comparison becomes a guard of
// its outcome. Whoever else asks what it is, C code by the slots of its class too, ends the trace.
#pragma once

#include <Python.h>

namespace vesta::capture {

bool is_symbolic_scalar(PyObject* x);
PyObject* varying_value(PyObject* x);  // borrowed
int varying_source(PyObject* x);
// A new reference, nullptr with an error set.
PyObject* make_symbolic_scalar(PyObject* value, int source);
// The object itself if it is one, or the first in a tuple, list or dict (in one of those, too); borrowed, or nullptr.
PyObject* first_symbolic_scalar(PyObject* x, int depth = 4);

}  // namespace vesta::capture
