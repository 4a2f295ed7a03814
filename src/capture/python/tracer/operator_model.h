// Operators, comparisons, truth and text.
//
// Guarantees: operators on tensors are recorded, on symbolic scalars computed again in each call, on other objects done
// now, with guards on the special methods that decide what is done. Functions have the contracts of
// interpreter/operations.h.
#pragma once

#include "capture/python/interpreter/operations.h"
#include "capture/python/object.h"

namespace vesta::capture {

class Trace;

class OperatorModel {
 public:
  explicit OperatorModel(Trace& trace) : t_(trace) {}

  PyObject* binary(int op, PyObject* left, PyObject* right);
  PyObject* unary(Operations::Unary op, PyObject* x);
  PyObject* compare(int op, PyObject* left, PyObject* right);
  int is_same(PyObject* left, PyObject* right);
  int is_true(PyObject* x);
  PyObject* format(PyObject* x, PyObject* spec);
  PyObject* convert(PyObject* x, Operations::Conversion kind);
  PyObject* join(PyObject* const* pieces, int n);
  int changes(PyObject* x);

 private:
  // Does the operator; between a symbolic integer and an int that is too large for one, on plain ints.
  template <class F>
  PyObject* finish(PyObject* left, PyObject* right, F&& f);
  // text % values
  PyObject* format_old(int op, PyObject* text, PyObject* values);
  Object text_operand(PyObject* x);

  Trace& t_;
};

}  // namespace vesta::capture
