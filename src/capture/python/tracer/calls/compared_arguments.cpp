// What a function compares its arguments with, or looks up, becomes a fact of the trace.
#include "capture/python/functions/functions.h"
#include "capture/python/tracer/descriptors.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/class_sets.h"

namespace vesta::capture {
namespace {

// The class whose method is called, or that is called itself; nullptr: the function is no method of an object.
PyTypeObject* owner_of(const Call& c) {
  if (is_method_of_c(c.function)) return PyDescr_TYPE(c.function);
  if (PyType_Check(c.function)) return reinterpret_cast<PyTypeObject*>(c.function);
  return c.self ? Py_TYPE(c.self) : nullptr;
}

bool is_dict_class(PyTypeObject* type) { return type && PyType_IsSubtype(type, &PyDict_Type); }

// Of pairs of keys and values, the keys.
bool guard_keys(Trace& t, PyObject* pairs) {
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(pairs); ++i) {
    PyObject* pair = PySequence_Fast_GET_ITEM(pairs, i);
    if (PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2 && !t.equality.guard_key(PyTuple_GET_ITEM(pair, 0)))
      return false;
  }
  return true;
}

}  // namespace

bool Calls::guard_compared(const Callable& known, const Call& c) {
  PyTypeObject* owner = owner_of(c);
  if (is_dict_class(owner)) {
    const Py_ssize_t first = is_method_of_c(c.function) ? 1 : 0;  // behind the dict itself, whose keys are not compared
    if (!PyType_Check(c.function) && known.compares != Compares::Arguments)
      return first >= c.n || t_.equality.guard_key(c.args[first]);
    for (Py_ssize_t i = first; i < c.n; ++i) {
      const bool are_pairs = PyList_Check(c.args[i]) || PyTuple_Check(c.args[i]);
      if (!(are_pairs ? guard_keys(t_, c.args[i]) : t_.equality.guard_key(c.args[i]))) return false;
    }
    return true;
  }
  const bool is_set = owner == &PySet_Type || owner == &PyFrozenSet_Type;
  if (!is_set) {
    if (owner == &PyList_Type || owner == &PyTuple_Type || (c.self && is_container_or_deque(c.self))) {
      if (known.compares != Compares::Items) return true;
      if (c.self && !t_.equality.guard_key(c.self)) return false;
    } else if (known.compares != Compares::Arguments && !is_of(c.function, ClassSet::ItemGetter)) {
      return true;
    }
  }
  for (Py_ssize_t i = 0; i < c.n; ++i)
    if (!t_.equality.guard_key(c.args[i])) return false;
  return true;
}

}  // namespace vesta::capture
