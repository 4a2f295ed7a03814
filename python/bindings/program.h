// Binds save_program() and LoadedProgram, from which vesta.save and vesta.load are made.
#pragma once

#include <pybind11/pybind11.h>

namespace vesta::python {

void add_program(pybind11::module_& m);

}  // namespace vesta::python
