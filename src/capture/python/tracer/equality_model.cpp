#include "capture/python/tracer/equality_model.h"

#include <string_view>

#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/callables.h"
#include "capture/python/tracer/symbolic_scalar.h"
#include "capture/python/tracer/trace.h"

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

bool EqualityModel::guard_by_value(PyObject* x, int depth) {
  if (t_.ended()) return false;
  if (depth == 0 || is_number_or_tensor(x)) return true;
  if (PyTuple_Check(x) || PyList_Check(x)) {
    if (!t_.containers.track_contents(x, depth)) return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(x); ++i)
      if (!guard_by_value(PySequence_Fast_GET_ITEM(x, i), depth - 1)) return false;
    return true;
  }
  if (PyDict_Check(x)) {
    if (!t_.containers.track_contents(x, depth)) return false;
    PyObject* key = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(x, &at, &key, nullptr);)
      if (!guard_by_value(key, depth - 1)) return false;
    return true;
  }
  if (PyAnySet_Check(x)) return t_.containers.track_contents(x, depth);
  if (PyMethod_Check(x))
    return guard_by_value(PyMethod_GET_SELF(x), depth - 1) && guard_by_value(PyMethod_GET_FUNCTION(x), depth - 1);
  // Any other object compares by identity, unless tracking it has guarded its value.
  const int source = t_.sources.find(x);
  if (source < 0 || is_guarded_when_tracked(x) || is_hashed_by_program(x)) return true;
  return t_.guards.add_address(x);
}

bool EqualityModel::guard_by_value(PyObject* x) { return guard_by_value(x, kDepth); }

bool EqualityModel::guard_comparison(PyObject* a, PyObject* b) {
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
  if (a != b && compares_by_identity(a) && compares_by_identity(b)) return t_.operators.is_same(a, b) >= 0;
  return true;
}

bool EqualityModel::guard_arguments(PyObject* f, PyObject* self, PyObject* const* args, Py_ssize_t n) {
  const bool is_unbound = Py_TYPE(f) == &PyMethodDescr_Type || Py_TYPE(f) == &PyWrapperDescr_Type;
  PyTypeObject* owner = is_unbound        ? PyDescr_TYPE(f)
                        : PyType_Check(f) ? reinterpret_cast<PyTypeObject*>(f)
                        : self            ? Py_TYPE(self)
                                          : nullptr;
  const std::string_view name = is_unbound             ? PyUnicode_AsUTF8(PyDescr_NAME(f))
                                : PyCFunction_Check(f) ? reinterpret_cast<PyCFunctionObject*>(f)->m_ml->ml_name
                                                       : "";
  bool compares = false;
  if (owner == &PySet_Type || owner == &PyFrozenSet_Type || (owner && PyType_IsSubtype(owner, &PyDict_Type))) {
    compares = true;
  } else if (owner == &PyList_Type || owner == &PyTuple_Type || (self && is_container(self))) {
    compares = name == "index" || name == "count" || name == "remove" || name.starts_with("__");
    if (compares && self && !guard_by_value(self)) return false;
  } else if (PyCFunction_Check(f) && PyCFunction_GET_SELF(f) && PyType_Check(PyCFunction_GET_SELF(f))) {
    compares = name == "fromkeys";
  } else if (PyCFunction_Check(f) && PyCFunction_GET_SELF(f) && PyModule_Check(PyCFunction_GET_SELF(f))) {
    const char* module = PyModule_GetName(PyCFunction_GET_SELF(f));
    if (!module) PyErr_Clear();
    compares = module && std::string_view(module) == "_operator";
  } else {
    compares = std::string_view(Py_TYPE(f)->tp_name) == "operator.itemgetter";
  }
  if (!compares) return true;
  if (owner && PyType_IsSubtype(owner, &PyDict_Type) && !PyType_Check(f) && name != "update") {
    const Py_ssize_t key = is_unbound ? 1 : 0;
    return key >= n || guard_by_value(args[key]);
  }
  for (Py_ssize_t i = 0; i < n; ++i) {
    const bool are_pairs =
        owner && PyType_IsSubtype(owner, &PyDict_Type) && (PyList_Check(args[i]) || PyTuple_Check(args[i]));
    if (!are_pairs && !guard_by_value(args[i])) return false;
    for (Py_ssize_t k = 0; are_pairs && k < PySequence_Fast_GET_SIZE(args[i]); ++k) {
      PyObject* pair = PySequence_Fast_GET_ITEM(args[i], k);
      if (PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2 && !guard_by_value(PyTuple_GET_ITEM(pair, 0)))
        return false;
    }
  }
  return true;
}

bool EqualityModel::guard_hash(PyObject* x) {
  if (!t_.objects.may_read_class(x)) return false;
  if (is_scalar(x) || PyType_Check(x)) return true;
  for (Py_ssize_t i = 0; PyTuple_Check(x) && i < PyTuple_GET_SIZE(x); ++i)
    if (!guard_hash(PyTuple_GET_ITEM(x, i))) return false;
  if (PyMethod_Check(x)) return guard_hash(PyMethod_GET_SELF(x)) && guard_hash(PyMethod_GET_FUNCTION(x));
  return Py_TYPE(x)->tp_hash != PyBaseObject_Type.tp_hash || t_.guards.add_address(t_.tensors.held_by_program(x));
}

bool EqualityModel::is_source_key(PyObject* x) const {
  return is_scalar(x) || (t_.sources.find(x) >= 0 && !is_hashed_by_program(x));
}

}  // namespace vesta::capture
