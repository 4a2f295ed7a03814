#include "capture/python/sources/compute.h"

namespace vesta::capture {

PyObject* compute(int operation, PyObject* a, PyObject* b, PyObject* function) {
  using Operator = PyObject* (*)(PyObject*, PyObject*);
  static constexpr Operator operators[] = {PyNumber_Add,
                                           PyNumber_And,
                                           PyNumber_FloorDivide,
                                           PyNumber_Lshift,
                                           PyNumber_MatrixMultiply,
                                           PyNumber_Multiply,
                                           PyNumber_Remainder,
                                           PyNumber_Or,
                                           [](PyObject* x, PyObject* y) { return PyNumber_Power(x, y, Py_None); },
                                           PyNumber_Rshift,
                                           PyNumber_Subtract,
                                           PyNumber_TrueDivide,
                                           PyNumber_Xor};
  switch (operation) {
    case Compute::Negative: return PyNumber_Negative(a);
    case Compute::Positive: return PyNumber_Positive(a);
    case Compute::Invert: return PyNumber_Invert(a);
    case Compute::Truth: return PyBool_FromLong(PyObject_IsTrue(a));
    case Compute::Call: {
      PyObject* args[] = {a, b};
      return PyObject_Vectorcall(function, args, b ? 2 : 1, nullptr);
    }
    default:
      return operation >= Compute::Compare ? PyObject_RichCompare(a, b, operation - Compute::Compare)
                                           : operators[operation](a, b);
  }
}

}  // namespace vesta::capture
