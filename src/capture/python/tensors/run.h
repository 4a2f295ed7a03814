// Runs a compiled graph on Python's tensors. If the graph fails, inputs and random numbers are as they were, unless a
// Python error is set.
#pragma once

#include <Python.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "capture/python/object.h"
#include "capture/python/tensors/compile.h"

namespace vesta::runtime {
class Executable;
}

namespace vesta::capture {

enum class GraphRun {
  Ran,
  Rejected,   // the graph was made for other inputs: see `why`
  NotPacked,  // its weights are packed in the background: see `failure`
  Failed,     // an operator raised, and eager raises the same: see `failure`
  Refused,    // Vesta cannot run it, now and later; eager can: see `failure`
  Raised,     // a Python error is set, and eager must not run the program once more
};
// Whether the graph was made for these inputs; if not, `why`, unless it is nullptr. `require_grad`: as for run_graph().
bool accepts(const CompiledGraph& graph, const std::vector<bool>& require_grad, std::span<PyObject* const> tensors,
             std::span<const int64_t> integers, std::string* why);
// Packs the weights among these inputs, however long that takes. Requires accepts(). Releases the GIL. An error of it
// comes again when the graph runs.
void pack_weights(const CompiledGraph& graph, std::span<PyObject* const> tensors, std::span<const int64_t> integers);
// Appends the outputs. Releases the GIL. `require_grad`: by input, if an operator was recorded in gradient mode.
GraphRun run_graph(const CompiledGraph& graph, const std::vector<bool>& require_grad,
                   std::span<PyObject* const> tensors, std::span<const int64_t> integers, std::vector<Object>& outputs,
                   std::string& failure, std::string* why);

}  // namespace vesta::capture
