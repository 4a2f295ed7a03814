// Constructors of tensors that do not know fake tensors: functions that came after them make the same.
#pragma once

#include <Python.h>

namespace vesta::capture {

class Tracer;

// What torch.Tensor(...), torch.FloatTensor(...) and Tensor.new(...) make of sizes or of data, a new reference. nullptr
// with an error set; nullptr without one: the arguments are neither. `like`: a tensor or a class of tensors.
PyObject* legacy_tensor(Tracer& t, PyObject* like, PyObject* const* args, Py_ssize_t n);

}  // namespace vesta::capture
