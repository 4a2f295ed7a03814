#pragma once

#include "capture/python/object.h"

namespace vesta::capture {

// The part of an exception that an `except*` clause takes, wrapped in a group where it is none, and the rest; None for
// nothing. -1: an error is set.
int split_group(PyObject* exception, PyObject* types, Object& match, Object& rest);
// What remains to raise after the clauses: of `raised`, a list of what they left (None: nothing), those parts of
// `original` that nobody handled are joined as they were in it. None: nothing.
PyObject* prep_reraise_star(PyObject* original, PyObject* raised);

}  // namespace vesta::capture
