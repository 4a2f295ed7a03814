// torch._dynamo.mark_dynamic, mark_static and their like leave sets of dimensions as attributes of a tensor.
#pragma once

#include <Python.h>

#include <vector>

namespace vesta::capture {

// Changes which dimensions are to be symbolic as the tensor is marked. A mark as dynamic wins.
void apply_marks(PyObject* tensor, std::vector<bool>& dynamic);

}  // namespace vesta::capture
