// The callables that vesta.compile made. A trace looks through one at what was compiled. Only the segments, a later
// folder, know these objects: they set how one is looked into.
#pragma once

#include <Python.h>

namespace vesta::capture {

// The callable inside, borrowed; nullptr: the object was not made by vesta.compile.
using LookInside = PyObject* (*)(PyObject*);
void set_look_inside(LookInside look);  // once, before the first trace
PyObject* compiled_by_vesta(PyObject* x);

}  // namespace vesta::capture
