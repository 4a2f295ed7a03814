// Python's objects as values of a saved program's calls, and back.
#pragma once

#include <pybind11/pybind11.h>

#include "vesta/detail/value.h"

namespace vesta::python {

// Lists, tuples and dicts (of any class derived from them) with all that they hold; an object of a class statement as
// the dict of its attributes. What a saved program has no checks for becomes a Name with its class.
detail::Value to_value(pybind11::handle x);
pybind11::object to_python(const detail::Value& v);

}  // namespace vesta::python
