// One call of a function, as its handler sees it. Everything in it is borrowed.
#pragma once

#include <Python.h>

namespace vesta::capture {

struct Call {
  PyObject* function;
  PyObject* self;         // the object that a bound C function works on; nullptr: there is none
  PyObject* const* args;  // positional ones, then those by name
  Py_ssize_t n;           // positional
  PyObject* names;        // a tuple or nullptr

  Py_ssize_t named() const { return names ? PyTuple_GET_SIZE(names) : 0; }
  Py_ssize_t all() const { return n + named(); }
  bool is_positional(Py_ssize_t count) const { return n == count && named() == 0; }

  // Of a method, which is bound to its object or has it as the first argument: the object (nullptr: it is missing) and
  // the arguments without it.
  PyObject* owner() const { return self ? self : n > 0 ? args[0] : nullptr; }
  PyObject* const* rest() const { return self ? args : args + 1; }
  Py_ssize_t rest_count() const { return self ? n : n - 1; }
};

}  // namespace vesta::capture
