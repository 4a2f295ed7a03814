// Binds the capture of Python code: CapturedFunction, capture() and the classes of its reports.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace vesta::python {

void add_capture(pybind11::module_& m);

}  // namespace vesta::python
