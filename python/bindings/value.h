// Converts Python objects to the values of a saved program's calls, and back.
#pragma once

#include <pybind11/pybind11.h>

#include "vesta/detail/value.h"

namespace vesta::python {

// Lists, tuples and dicts (of any class derived from them) with their contents. An object of a plain Python class
// becomes the dict of its attributes. A value that saved programs have no checks for becomes a Name with its class.
detail::Value to_value(pybind11::handle x);
pybind11::object to_python(const detail::Value& v);

}  // namespace vesta::python
