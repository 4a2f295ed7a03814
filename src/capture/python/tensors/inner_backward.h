// Backward passes that a program runs while it is traced.
#pragma once

#include <Python.h>

#include <optional>
#include <vector>

#include "capture/python/object.h"

namespace vesta::capture {

// What torch.autograd's engine is asked for (trace/gradients/inner_backward.h). Objects are borrowed.
struct BackwardCall {
  std::vector<PyObject*> results, tangents, inputs;  // a tangent may be None
  bool accumulates = false, keeps_graph = false, creates_graph = false, allows_unused = false;
};

struct BackwardGradients {
  struct Leaf {
    Object leaf, gradient;
  };
  std::vector<Leaf> leaves;
  std::vector<Object> captured;  // None where an input was not used
};

// nullopt with an error set; trace_failure() has the reason.
std::optional<BackwardGradients> trace_backward(const BackwardCall& call);

// What torch.autograd._make_grads takes for the gradient of a result; `given`: a tensor or None. A new reference, empty
// with an error set, nullopt where torch decides or refuses.
std::optional<Object> tangent_for(PyObject* result, PyObject* given);

// Tensors as autograd's own code may see them in a trace with gradients: those of the program in the place of which
// fake tensors stand. A new tuple; nullptr with an error set.
PyObject* fake_arguments(PyObject* const* arguments, Py_ssize_t n);
// Traces the backward method of a torch.autograd.Function. `result`: of a call, a tensor or a tuple. False with an
// error set.
bool trace_function(PyObject* result);

// What AccumulateGrad makes of a gradient that a leaf has and a new one: the sum, in the memory of the old one unless
// the pass creates a graph. A new reference, nullptr with an error set.
PyObject* accumulated(PyObject* gradient, PyObject* added, bool creates_graph);

// Whether torch lets a leaf have this gradient: the same type, device and sizes, and no history.
bool may_be_gradient(PyObject* leaf, PyObject* gradient);
// leaf.grad = gradient, without torch's checks of it. None: it has none.
void put_gradient(PyObject* leaf, PyObject* gradient);

}  // namespace vesta::capture
