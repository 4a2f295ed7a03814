#pragma once

#include <torch/csrc/utils/pybind.h>

namespace vesta::python {

// CapturedFunction, capture() and the report's classes.
void add_capture(pybind11::module_& m);

}  // namespace vesta::python
