// Calls a method without Python's deprecation warning: in 3.12 and 3.13, iterators of itertools warn when they are
// copied, and the copy is Vesta's, not the program's. No other warning is suppressed.
#pragma once

#include "capture/python/object.h"

namespace vesta::capture {

// x.name() or, with an argument, x.name(argument). Empty with an error set.
Object call_quietly(PyObject* x, PyObject* name, PyObject* argument = nullptr);

}  // namespace vesta::capture
