#include "capture/python/interpreter/handlers.h"

namespace vesta::capture {
namespace {

// Replaces n operands by a callable (stolen) in the form that CALL expects of one without a separate `self`.
Step replace_by_callable(Evaluation& e, int n, PyObject* callable) {
  if (callable == nullptr) return Step::Error;
  drop(e, n);
  if (python_minor < 13) push(e.frame, nullptr);
  push(e.frame, callable);
  if (python_minor >= 13) push(e.frame, nullptr);
  return Step::Next;
}

// A method written in C and its object stay separate operands, as in CPython: error messages depend on it.
Step load_callable(Evaluation& e, PyObject* name) {
  PyObject* owner = peek(e.frame, 1);
  PyObject* x = e.operations.get_attr(owner, name);
  if (x == nullptr || !PyCFunction_CheckExact(x) || reinterpret_cast<PyCFunctionObject*>(x)->m_self != owner)
    return replace_by_callable(e, 1, x);
  PyObject* descriptor = _PyType_Lookup(Py_TYPE(owner), name);
  if (descriptor == nullptr || Py_TYPE(descriptor) != &PyMethodDescr_Type ||
      reinterpret_cast<PyMethodDescrObject*>(descriptor)->d_method != reinterpret_cast<PyCFunctionObject*>(x)->m_ml)
    return replace_by_callable(e, 1, x);
  Py_DECREF(x);
  peek(e.frame, 1) = Py_NewRef(descriptor);
  push(e.frame, owner);
  return Step::Next;
}

Step load_attr(Evaluation& e, int oparg) {
  if (python_minor >= 12 && (oparg & 1) != 0) return load_callable(e, name_at(e, oparg >> 1));
  return replace(e, 1, e.operations.get_attr(peek(e.frame, 1), name_at(e, python_minor >= 12 ? oparg >> 1 : oparg)));
}

Step load_method(Evaluation& e, int oparg) { return load_callable(e, name_at(e, oparg)); }

Step store_attr(Evaluation& e, int oparg) {
  return done(e, 2, e.operations.set_attr(peek(e.frame, 1), name_at(e, oparg), peek(e.frame, 2)));
}

Step delete_attr(Evaluation& e, int oparg) {
  return done(e, 1, e.operations.set_attr(peek(e.frame, 1), name_at(e, oparg), nullptr));
}

Step load_super_attr(Evaluation& e,
                     int oparg) {  // operands: super, the class, self; bits of oparg: two arguments, a method
  size_t count = (oparg & 2) != 0 ? 2 : 0;
  Object super = Object::take(e.operations.call(peek(e.frame, 3), &peek(e.frame, 2), count | offset_flag(e), nullptr));
  if (!super) return Step::Error;
  PyObject* x = e.operations.get_attr(super.get(), name_at(e, oparg >> 2));
  return (oparg & 1) != 0 ? replace_by_callable(e, 3, x) : replace(e, 3, x);
}

constexpr Row kAttributeRows[] = {
    {"LOAD_ATTR", 11, 13, load_attr},
    {"LOAD_METHOD", 11, 11, load_method},
    {"STORE_ATTR", 11, 13, store_attr},
    {"DELETE_ATTR", 11, 13, delete_attr},
    {"LOAD_SUPER_ATTR", 12, 13, load_super_attr},
};

}  // namespace

std::span<const Row> attribute_rows() { return kAttributeRows; }

}  // namespace vesta::capture
