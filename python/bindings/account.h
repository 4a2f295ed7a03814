// Binds what Vesta says about the whole process: statistics and events.
#pragma once

#include <pybind11/pybind11.h>

namespace vesta::python {

void add_account(pybind11::module_& m);

}  // namespace vesta::python
