#pragma once

#include "capture/python/object.h"

namespace vesta::capture {

// Splits an exception into the part that an `except*` clause handles (wrapped in a group if it is a plain exception)
// and the rest. Either is None if it is empty. -1: an error is set.
int split_group(PyObject* exception, PyObject* types, Object& match, Object& rest);
// The exception to raise after all clauses. `raised` lists what each clause left (None: nothing). The parts of
// `original` that no clause handled keep its structure. None: nothing is raised.
PyObject* prep_reraise_star(PyObject* original, PyObject* raised);

}  // namespace vesta::capture
