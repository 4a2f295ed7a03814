#include "capture/python/tracer/equality_model.h"

#include "capture/python/functions/hashed_keys.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/symbolic_scalar.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/class_sets.h"
#include "capture/python/values/scalar.h"

namespace vesta::capture {
namespace {

constexpr int kDepth = 8;

bool is_number_or_tensor(PyObject* x) {
  return is_scalar(x) || is_tensor(x) || is_symbolic(x) || is_symbolic_scalar(x) || is_numpy_scalar(x);
}

bool compares_by_identity(PyObject* x) {
  return !is_number_or_tensor(x) && !is_container_or_deque(x) &&
         Py_TYPE(x)->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

}  // namespace

bool EqualityModel::guard_key(PyObject* x, int depth) {
  if (t_.ended()) return false;
  if (depth == 0 || is_number_or_tensor(x)) return true;
  if (is_container(x)) {
    if (!t_.containers.track_contents(x, depth)) return false;
    const bool is_sequence = PyTuple_Check(x) || PyList_Check(x);
    for (Py_ssize_t i = 0; is_sequence && i < PySequence_Fast_GET_SIZE(x); ++i)
      if (!guard_key(PySequence_Fast_GET_ITEM(x, i), depth - 1)) return false;
    PyObject* key = nullptr;
    for (Py_ssize_t at = 0; PyDict_Check(x) && PyDict_Next(x, &at, &key, nullptr);)
      if (!guard_key(key, depth - 1)) return false;
    return true;
  }
  if (PyMethod_Check(x))
    return guard_key(PyMethod_GET_SELF(x), depth - 1) && guard_key(PyMethod_GET_FUNCTION(x), depth - 1);
  // Any other object compares by identity, unless tracking it has guarded its value.
  const int source = t_.sources.find(x);
  if (source < 0 || is_guarded_when_tracked(x) || is_hashed_by_program(x)) return true;
  return t_.guards.add_address(x);
}

bool EqualityModel::guard_key(PyObject* x) { return guard_key(x, kDepth); }

bool EqualityModel::guard_comparison(PyObject* a, PyObject* b) {
  if (is_container_or_deque(a) && is_container_or_deque(b)) {
    for (PyObject* x : {a, b}) {
      if (!guard_key(x)) return false;
      PyObject* value = nullptr;
      for (Py_ssize_t at = 0; PyDict_Check(x) && PyDict_Next(x, &at, nullptr, &value);)
        if (!guard_key(value)) return false;
    }
    return true;
  }
  if (PyMethod_Check(a) && PyMethod_Check(b)) return guard_key(a) && guard_key(b);
  if (a != b && compares_by_identity(a) && compares_by_identity(b)) return t_.operators.is_same(a, b) >= 0;
  return true;
}

bool EqualityModel::is_source_key(PyObject* x) const {
  return is_scalar(x) || (t_.sources.find(x) >= 0 && !is_hashed_by_program(x));
}

}  // namespace vesta::capture
