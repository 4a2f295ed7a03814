// .grad of leaf tensors that the program holds: optimizers read it, and zero_grad() takes it away.
//
// Guarantees: a gradient is what the leaf has, a tensor with a source of its own (SourceKind::Gradient) or None, which
// is guarded. None may be assigned, which the undo log takes back and the epilogue repeats. .grad of a tensor that the
// trace made or that is no leaf, and any other assignment, is a graph break.
#pragma once

#include <Python.h>

namespace vesta::capture {

class Trace;
struct Callable;

// tensor.grad; new, nullptr with an error set. `refused`: the row of Tensor.grad, for the text of a break.
PyObject* get_gradient(Trace& t, PyObject* tensor, const Callable& refused);
// tensor.grad = value; -1 with an error set.
int set_gradient(Trace& t, PyObject* tensor, PyObject* value);

}  // namespace vesta::capture
