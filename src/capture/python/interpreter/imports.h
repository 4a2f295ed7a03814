#pragma once

#include <Python.h>

namespace vesta::capture {

// from module import *, into `space`.
int import_all(PyObject* space, PyObject* module);
// The ImportError of `from module import name` where there is no such thing.
void raise_cannot_import(PyObject* module, PyObject* name);

}  // namespace vesta::capture
