// Objects behind which there is no Python code of the program, or none that a trace may run. No Python code runs in any
// of these functions, and none leaves an error set.
#pragma once

#include <Python.h>

namespace vesta::capture {

// An iterator whose `next` is C code: a guard cannot say how far it has come.
bool is_c_iterator(PyObject* x);
// A module that sys.modules has under its name.
bool is_imported(PyObject* module);
// Numbers, texts, tensors whose class has no functions of its own, and short tuples and lists of those.
bool is_data(PyObject* x, int depth = 2);

}  // namespace vesta::capture
