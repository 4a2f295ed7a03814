// Recorded compiles as Python objects: what keeps them, and what repeats them.
#pragma once

#include <pybind11/pybind11.h>

namespace vesta::python {

void add_cases(pybind11::module_& module);

}  // namespace vesta::python
