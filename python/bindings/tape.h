// vesta._C.Tape: a traced program for Python (src/trace/gradients/tape.h). Reading a tape runs nothing.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>

#include "trace/gradients/tape.h"

namespace vesta::python {

// The caller holds the GIL.
pybind11::object to_python(std::shared_ptr<const trace::Tape> tape);

// Adds the types and `trace_tape` to the module.
void add_tape(pybind11::module_& module);

}  // namespace vesta::python
