// .grad of leaf tensors that the program holds: optimizers read it, and zero_grad() takes it away.
//
// Guarantees: a gradient is what the leaf has, a tensor with a source of its own (SourceKind::Gradient) or None, which
// is guarded. None may be assigned, which the undo log takes back and the epilogue repeats. .grad of a tensor that the
// trace made or that is no leaf, and any other assignment, is a graph break.
#pragma once

#include "capture/python/functions/functions.h"
#include "capture/python/object.h"

namespace vesta::capture {

class Trace;

class GradientModel {
 public:
  explicit GradientModel(Trace& trace) : t_(trace) {}

  // tensor.grad; new, nullptr with an error set. `refused`: the row of Tensor.grad, for the text of a break.
  PyObject* get(PyObject* tensor, const Callable& refused);
  // tensor.grad = value; -1 with an error set.
  int set(PyObject* tensor, PyObject* value);

 private:
  // The program's tensor, borrowed; nullptr: it is none of the program's, or no leaf.
  PyObject* leaf(PyObject* tensor);

  Trace& t_;
};

}  // namespace vesta::capture
