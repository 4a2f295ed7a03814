// Arithmetic on numbers that the frame of a segment reads, computed again at every call (SourceKind::Computed).
#pragma once

#include <Python.h>

namespace vesta::capture {

// The operation of such a source: its `index`.
struct Compute {
  enum Kind : int { Binary = 0, Compare = 16, Negative = 32, Positive, Invert, Truth, Call };
  // Binary + NB_ADD ... NB_XOR; Compare + Py_LT ... Py_GE.
};
// The result for exact ints, floats and bools; a new reference, nullptr with an error set. No Python code runs.
// `right`: nullptr for one operand. `function`: for Compute::Call.
PyObject* compute(int operation, PyObject* left, PyObject* right, PyObject* function);

}  // namespace vesta::capture
