#include "capture/python/epilogue/quiet.h"

#include "capture/python/values/class_sets.h"

namespace vesta::capture {
namespace {

bool warns(PyObject* x) { return PY_VERSION_HEX >= 0x030c0000 && is_of(x, ClassSet::Itertools); }

// Puts a filter first in the module `warnings`, and takes it out again. warnings.catch_warnings would reset the records
// of warnings that are shown once.
class Filter {
 public:
  Filter() {
    static PyObject* const ignored = Py_BuildValue("(sOOOi)", "ignore", Py_None, PyExc_DeprecationWarning, Py_None, 0);
    const Object filters = attribute_of("warnings", "filters");
    if (filters && ignored && PyList_Check(filters.get()) && PyList_Insert(filters.get(), 0, ignored) == 0) {
      filters_ = filters;
      filter_ = ignored;
    }
    PyErr_Clear();
  }
  ~Filter() {
    if (!filters_) return;
    const ErrorAside error;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(filters_.get()); ++i)
      if (PyList_GET_ITEM(filters_.get(), i) == filter_) {
        PyList_SetSlice(filters_.get(), i, i + 1, nullptr);
        break;
      }
  }
  Filter& operator=(Filter&&) = delete;  // neither copied nor moved

 private:
  Object filters_;
  PyObject* filter_ = nullptr;
};

// Python records a warning in the globals of the calling function: this function has globals of its own.
PyObject* caller() {
  static PyObject* const made = [] {
    const Object globals = Object::take(PyDict_New());
    return globals ? PyRun_String("lambda method, *rest: method(*rest)", Py_eval_input, globals.get(), globals.get())
                   : nullptr;
  }();
  return made;
}

}  // namespace

Object call_quietly(PyObject* x, PyObject* name, PyObject* argument) {
  if (!warns(x) || !caller())
    return Object::take(argument ? PyObject_CallMethodOneArg(x, name, argument) : PyObject_CallMethodNoArgs(x, name));
  const Object method = Object::take(PyObject_GetAttr(x, name));
  if (!method) return {};
  const Filter filter;
  return Object::take(PyObject_CallFunctionObjArgs(caller(), method.get(), argument, nullptr));
}

}  // namespace vesta::capture
