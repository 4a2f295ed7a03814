// vesta._C.Tape: a traced program as Python sees it (src/trace/gradients/tape.h).
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>

#include "trace/gradients/tape.h"

namespace vesta::python {

// The GIL is held.
pybind11::object to_python(std::shared_ptr<const trace::Tape> tape);

// Adds the types and `trace_tape` to the module.
void add_tape(pybind11::module_& module);

}  // namespace vesta::python
