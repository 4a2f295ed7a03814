// A method of an object, called without what Python says against it: from 3.12 to 3.13 the iterators of itertools warn
// that they are copied, which no program that is traced asked for.
#pragma once

#include "capture/python/object.h"

namespace vesta::capture {

// x.name() or, with an argument, x.name(argument). Empty with an error set.
Object call_quietly(PyObject* x, PyObject* name, PyObject* argument = nullptr);

}  // namespace vesta::capture
