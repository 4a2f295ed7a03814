#include "capture/python/values/scalar.h"

#include <cstring>

#include "capture/python/values/class_sets.h"
#include "capture/python/values/classes.h"

namespace vesta::capture {
namespace {

template <class T>
bool same_bits(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;  // NOLINT(bugprone-suspicious-memory-comparison): bit for bit
}

}  // namespace

bool is_scalar(PyObject* x) {
  return x == Py_None || x == Py_Ellipsis || x == Py_NotImplemented || PyBool_Check(x) || PyLong_CheckExact(x) ||
         PyFloat_CheckExact(x) || PyUnicode_CheckExact(x) || PyBytes_CheckExact(x) || PyComplex_CheckExact(x);
}

bool is_numpy_scalar_type(PyTypeObject* type) {
  return is_derived_from(type, ClassSet::NumpyScalars) && !is_in(type, ClassSet::NumpyContainers) &&
         !is_python_class(type);
}

bool is_numpy_scalar(PyObject* x) { return is_numpy_scalar_type(Py_TYPE(x)); }

bool same_scalar(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyFloat_CheckExact(a)) return same_bits(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b));
  if (PyComplex_CheckExact(a)) return same_bits(PyComplex_AsCComplex(a), PyComplex_AsCComplex(b));
  if (PyUnicode_CheckExact(a))
    return PyUnicode_GET_LENGTH(a) == PyUnicode_GET_LENGTH(b) && PyUnicode_Compare(a, b) == 0;
  if (!PyLong_CheckExact(a) && !PyBytes_CheckExact(a) && !PyRange_Check(a) && !is_of(a, ClassSet::TensorProperties)) {
    if (!is_numpy_scalar(a)) return false;
    if (PyFloat_Check(a)) return same_bits(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b));
  }
  const int same = PyObject_RichCompareBool(a, b, Py_EQ);
  if (same < 0) PyErr_Clear();
  return same == 1;
}

}  // namespace vesta::capture
