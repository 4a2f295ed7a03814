// The memory of calls, for estimates.
#pragma once

#include <pybind11/pybind11.h>

namespace vesta::python {

void add_counted_bytes(pybind11::module_& m);

}  // namespace vesta::python
