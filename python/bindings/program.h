#pragma once

#include <pybind11/pybind11.h>

namespace vesta::python {

// save_program() and LoadedProgram: what vesta.save and vesta.load are made of.
void add_program(pybind11::module_& m);

}  // namespace vesta::python
