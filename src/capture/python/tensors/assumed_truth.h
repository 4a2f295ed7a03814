// Conditions on tensors whose one side raises an exception.
#pragma once

#include <Python.h>

#include <optional>

namespace vesta::capture {

// Checks in each run of the graph that bool(tensor) is `truth`: where it is not, the run raises before anything is
// written, and the call runs eager. True: it will be checked. False: the trace has no such check of this tensor, or
// knows its truth. nullopt with an error set.
std::optional<bool> assume_truth(PyObject* tensor, bool truth);

}  // namespace vesta::capture
