// A compiled graph on Python's tensors.
#pragma once

#include <Python.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "capture/python/object.h"

namespace vesta::runtime {
class Executable;
}

namespace vesta::capture {

enum class GraphRun {
  Ran,
  Rejected,  // made for other inputs: `why`
  Failed,    // inputs are as they were: the same may be run eagerly; `why`
  Raised,    // a Python error is set
};
// Outputs are appended. Releases the GIL.
// `differentiable`: nullptr, or what runs in place of the graph, where the inputs that `require_grad` says do.
GraphRun run_graph(const runtime::Executable& graph, PyObject* differentiable, const std::vector<bool>& require_grad,
                   std::span<PyObject* const> tensors, std::span<const int64_t> integers, std::vector<Object>& outputs,
                   std::string* why);

}  // namespace vesta::capture
