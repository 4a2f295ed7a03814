#include "capture/python/sources/compute.h"

#include "capture/python/interpreter/operations.h"

namespace vesta::capture {

PyObject* compute(int operation, PyObject* a, PyObject* b, PyObject* function) {
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
                                           : binary_functions[operation](a, b);
  }
}

}  // namespace vesta::capture
