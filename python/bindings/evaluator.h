// Binds the evaluator for tests: evaluate(), evaluated(), evaluate_all() and how_handled(). No user code needs them.
#pragma once

#include <Python.h>

namespace vesta::python {

// -1: a Python error is set.
int add_evaluator(PyObject* module);

}  // namespace vesta::python
