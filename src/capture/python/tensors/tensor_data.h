// tensor.data in a trace: a tensor in the same memory, without a history and with a version counter of its own.
#pragma once

#include <Python.h>

namespace vesta::capture {

// The fake tensor for tensor.data; new, nullptr with an error set.
PyObject* data_of(PyObject* tensor);
// `real.data = made` for the fake tensor of a tensor of the program, which itself stays as it is. False with an error
// set; trace_failure() has the reason.
bool give_data(PyObject* real, PyObject* made);

}  // namespace vesta::capture
