#pragma once

#include <Python.h>

namespace vesta::python {

// evaluate(), evaluated(), evaluate_all() and how_handled(). -1: an error is set.
int add_evaluator(PyObject* module);

}  // namespace vesta::python
