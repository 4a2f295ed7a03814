// Hashes and equality: what a key, or an object that is looked for, is compared by becomes a fact of the trace.
#include <string_view>

#include "capture/python/tracer/tracer.h"

namespace vesta::capture {
namespace {

constexpr int kDepth = 8;

bool is_number_or_tensor(PyObject* x) {
  return is_scalar(x) || is_tensor(x) || is_symbolic(x) || is_symbolic_scalar(x) || is_numpy_scalar(x);
}

bool is_container(PyObject* x) {
  return PyTuple_Check(x) || PyList_Check(x) || PyDict_Check(x) || PyAnySet_Check(x) ||
         std::string_view(Py_TYPE(x)->tp_name) == "collections.deque";
}

bool compares_by_identity(PyObject* x) {
  return !is_number_or_tensor(x) && !is_container(x) && Py_TYPE(x)->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

}  // namespace

bool Tracer::guard_by_value(PyObject* x, int depth) {
  if (aborted_) return false;
  if (depth == 0 || is_number_or_tensor(x)) return true;
  if (PyTuple_Check(x) || PyList_Check(x)) {
    if (!track_contents(x, depth)) return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(x); ++i)
      if (!guard_by_value(PySequence_Fast_GET_ITEM(x, i), depth - 1)) return false;
    return true;
  }
  if (PyDict_Check(x)) {
    if (!track_contents(x, depth)) return false;
    PyObject* key = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(x, &at, &key, nullptr);)
      if (!guard_by_value(key, depth - 1)) return false;
    return true;
  }
  if (PyAnySet_Check(x)) return track_contents(x, depth);
  if (PyMethod_Check(x))
    return guard_by_value(PyMethod_GET_SELF(x), depth - 1) && guard_by_value(PyMethod_GET_FUNCTION(x), depth - 1);
  // What else there was before is this very object, or of a value that is guarded already.
  const int source = sources.find(x);
  if (source < 0 || is_guarded_when_tracked(x) || is_hashed_by_program(x)) return true;
  return guard_address(x);
}

bool Tracer::guard_by_value(PyObject* x) { return guard_by_value(x, kDepth); }

int Tracer::hashes(PyObject* key) { return guard_by_value(key) ? 0 : -1; }

bool Tracer::guard_comparison(PyObject* a, PyObject* b) {
  if (is_container(a) && is_container(b)) {
    for (PyObject* x : {a, b}) {
      if (!guard_by_value(x)) return false;
      PyObject* value = nullptr;
      for (Py_ssize_t at = 0; PyDict_Check(x) && PyDict_Next(x, &at, nullptr, &value);)
        if (!guard_by_value(value)) return false;
    }
    return true;
  }
  if (PyMethod_Check(a) && PyMethod_Check(b)) return guard_by_value(a) && guard_by_value(b);
  if (a != b && compares_by_identity(a) && compares_by_identity(b)) return is_same(a, b) >= 0;
  return true;
}

}  // namespace vesta::capture
