// A call of the operator of a fused optimizer in a trace, with tensors in the place of numbers.
#pragma once

#include <Python.h>

#include <optional>
#include <string>

namespace vesta::capture {

// The arguments of torch._fused_adam_ and its like, as Python has them. False: the trace has ended, with an error set.
// nullopt: they are none of the operator's.
std::optional<bool> trace_fused_step(const std::string& name, PyObject* const* args, Py_ssize_t n, PyObject* names);

}  // namespace vesta::capture
