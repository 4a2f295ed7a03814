// Keys of dicts and sets for whose hash or comparison Python code runs. None of that code runs here.
#pragma once

#include <Python.h>

namespace vesta::capture {

// Python code of the program runs for the hash or the comparison of this key.
bool is_hashed_by_program(PyObject* x);
// Any Python code does: the program's, a package's or Python's own.
bool is_hashed_by_python(PyObject* x);
// A dict or set that has such keys.
bool has_keys_of_program(PyObject* container);
bool has_keys_of_python(PyObject* container);

}  // namespace vesta::capture
