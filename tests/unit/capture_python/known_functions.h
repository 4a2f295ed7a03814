// The table of C functions as Python sees it: functions of the module vesta_capture_tests, for
// tests/capture/test_known_functions.py.
#pragma once

#include <Python.h>

namespace vesta::capture::testing {

// A list of (name, effect, expected, resolved) for each name of each row. Expected: the row is for this Python and this
// torch. Resolved: there is a function or class of that name, and its lookup finds the row.
PyObject* known_functions(PyObject*, PyObject*);
// The classes with a row.
PyObject* known_classes(PyObject*, PyObject*);
// "reads", "writes", ...: the effect of a function.
PyObject* effect_of(PyObject*, PyObject* function);

}  // namespace vesta::capture::testing
