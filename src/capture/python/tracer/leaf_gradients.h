// .grad of leaf tensors, and of tensors that the trace has made and that retain it: optimizers read it, zero_grad()
// takes it away, and a backward pass inside the program sets it.
//
// Guarantees: a gradient is what the leaf has, a tensor with a source of its own (SourceKind::Gradient) or None, which
// is guarded, or what the trace has put there. None and tensors that the trace has made may be assigned, which the undo
// log takes back and the epilogue repeats. .grad of any other tensor, and any other assignment, is a graph break.
// Whether a leaf requires a gradient, and its .data, are written, taken back and repeated in the same way.
#pragma once

#include <Python.h>

#include <optional>

namespace vesta::capture {

class Trace;
struct Callable;

// tensor.grad; new, nullptr with an error set. `refused`: the row of Tensor.grad, for the text of a break.
PyObject* get_gradient(Trace& t, PyObject* tensor, const Callable& refused);
// tensor.grad = value; -1 with an error set.
int set_gradient(Trace& t, PyObject* tensor, PyObject* value);
// tensor.requires_grad = required, of a leaf of the program. nullopt: it is another tensor. False with an error set.
std::optional<bool> set_requires_grad(Trace& t, PyObject* tensor, bool required);
// tensor.data = value; -1 with an error set.
int set_data(Trace& t, PyObject* tensor, PyObject* value);
// What autograd does with a new gradient of a leaf. False with an error set.
bool accumulate_gradient(Trace& t, PyObject* tensor, PyObject* gradient, bool creates_graph);

}  // namespace vesta::capture
