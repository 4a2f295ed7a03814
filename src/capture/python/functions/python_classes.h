// Classes by who made them, a class statement or C, and objects behind which no Python code of the program is. No
// Python code runs, and no error is left set.
#pragma once

#include <Python.h>

namespace vesta::capture {

// A class that a class statement made.
bool is_python_class(PyTypeObject* type);
// The first base, or the class itself, that no class statement made.
PyTypeObject* c_base(PyTypeObject* type);
// A numpy scalar: immutable, and its class is written in C.
bool is_numpy_scalar(PyObject* x);
bool is_numpy_scalar_type(PyTypeObject* type);
// An iterator whose `next` is C code: a guard cannot say how far it has come.
bool is_c_iterator(PyObject* x);
// A module that sys.modules has under its name.
bool is_imported(PyObject* module);
// Numbers, texts, tensors whose class has no functions of its own, and short tuples and lists of those.
bool is_data(PyObject* x, int depth = 2);

}  // namespace vesta::capture
