#pragma once

#include <Python.h>

namespace vesta::capture {

// Executes `from module import *` in the namespace `space`.
int import_all(PyObject* space, PyObject* module);
// Sets the ImportError of `from module import name` for a name that the module lacks.
void raise_cannot_import(PyObject* module, PyObject* name);

}  // namespace vesta::capture
