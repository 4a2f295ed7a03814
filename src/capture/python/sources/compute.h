// Arithmetic on numbers that a segment's frame reads, done again at every call.
#pragma once

#include <Python.h>

namespace vesta::capture {

// What a SourceKind::Computed does, its `index`.
struct Compute {
  enum Kind : int { Binary = 0, Compare = 16, Negative = 32, Positive, Invert, Truth, Call };
  // Binary + NB_ADD ... NB_XOR; Compare + Py_LT ... Py_GE.
};
// The outcome for exact ints, floats and bools; a new reference, nullptr with an error set. No Python code runs.
// `right` may be nullptr; `function`: of Compute::Call.
PyObject* compute(int operation, PyObject* left, PyObject* right, PyObject* function);

}  // namespace vesta::capture
