// From the names of a table's row to Python's objects. No Python code of the program runs, and no error is left set or
// lost: the names may be read in the middle of a trace.
#pragma once

#include <Python.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "capture/python/object.h"

namespace vesta::capture {

// A module that the program has imported, or one of torch._C's inner modules, which are attributes only; borrowed,
// nullptr: there is none.
PyObject* imported_module(const std::string& name);
// A name of the module, or an expression of its names; nothing: there is none.
Object evaluate(PyObject* module, const std::string& name);

// Each of the names that are separated by spaces.
template <class F>
void each_name(std::string_view list, F&& f) {
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(' ', at), list.size());
    if (end > at) f(list.substr(at, end - at));
    at = end + 1;
  }
}

}  // namespace vesta::capture
