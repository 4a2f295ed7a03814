#include "capture/python/interpreter/handlers.h"

namespace vesta::capture {

int find_item(PyObject* mapping, PyObject* key, PyObject** out) {
  if (PyDict_CheckExact(mapping)) {
    *out = Py_XNewRef(PyDict_GetItemWithError(mapping, key));
    return *out != nullptr ? 1 : PyErr_Occurred() != nullptr ? -1 : 0;
  }
  *out = PyObject_GetItem(mapping, key);
  if (*out != nullptr) return 1;
  if (!PyErr_ExceptionMatches(PyExc_KeyError)) return -1;
  PyErr_Clear();
  return 0;
}

int find_attr(PyObject* owner, PyObject* name, PyObject** out) {
#if PY_VERSION_HEX >= 0x030d0000
  return PyObject_GetOptionalAttr(owner, name, out);
#else
  return _PyObject_LookupAttr(owner, name, out);
#endif
}

PyObject* describe_callable(PyObject* callable) {
  Object name, owner;
  int found = find_attr(callable, "__qualname__"_name, name.out());
  if (found < 0) return nullptr;
  if (found == 0) return PyObject_Str(callable);
  if (find_attr(callable, "__module__"_name, owner.out()) < 0) return nullptr;
  if (owner && owner.get() != Py_None) {
    Object builtins = Object::take(PyUnicode_FromString("builtins"));
    if (!builtins) return nullptr;
    int other = PyObject_RichCompareBool(owner.get(), builtins.get(), Py_NE);
    if (other < 0) return nullptr;
    if (other > 0) return PyUnicode_FromFormat("%S.%S()", owner.get(), name.get());
  }
  return PyUnicode_FromFormat("%S()", name.get());
}

namespace {

// A NameError carries the name: tracebacks suggest similar ones.
void attach_name(PyObject* name) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (PyErr_GivenExceptionMatches(value, PyExc_NameError)) {
    PyNameErrorObject* error = reinterpret_cast<PyNameErrorObject*>(value);
    if (error->name == nullptr) error->name = Py_NewRef(name);
  }
  PyErr_Restore(type, value, traceback);
}

}  // namespace

void raise_name_error(PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return;
  PyErr_Format(PyExc_NameError, "name '%.200s' is not defined", text);
  attach_name(name);
}

Step raise_unbound(const Evaluation& e, int slot) {
  PyCodeObject* code = code_of(e.frame);
  PyObject* name = local_name_at(e, slot);
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return Step::Error;
  if (slot < code->co_nlocalsplus - code->co_nfreevars)
    return fail(PyExc_UnboundLocalError, "cannot access local variable '%s' where it is not associated with a value",
                text);
  fail(PyExc_NameError, "cannot access free variable '%s' where it is not associated with a value in enclosing scope",
       text);
  attach_name(name);
  return Step::Error;
}

}  // namespace vesta::capture
