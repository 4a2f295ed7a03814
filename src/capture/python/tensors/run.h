// A compiled graph on Python's tensors.
#pragma once

#include <Python.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "capture/python/object.h"
#include "capture/python/tensors/tensors.h"

namespace vesta::runtime {
class Executable;
}

namespace vesta::capture {

enum class GraphRun {
  Ran,
  Rejected,  // made for other inputs: `why`
  Failed,    // an operator raised; inputs and random numbers are as they were: eager raises the same; `why`
  Refused,   // Vesta's own error: eager may run it, and later calls would end the same; `why`
  Raised,    // a Python error is set, and eager must not run the program again
};
// Outputs are appended. Releases the GIL.
// `require_grad`: which of the inputs do, where that matters: if an operator was recorded in gradient mode.
GraphRun run_graph(const CompiledGraph& graph, const std::vector<bool>& require_grad,
                   std::span<PyObject* const> tensors, std::span<const int64_t> integers, std::vector<Object>& outputs,
                   std::string* why);

}  // namespace vesta::capture
