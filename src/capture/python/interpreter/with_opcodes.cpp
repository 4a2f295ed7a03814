#include "capture/python/interpreter/handlers.h"

namespace vesta::capture {
namespace {

PyObject* lookup(Evaluation& e, PyObject* manager, PyObject* name, const char* missed) {
  PyObject* method = e.operations.lookup_special(manager, name);
  if (method == nullptr && PyErr_Occurred() == nullptr)
    PyErr_Format(PyExc_TypeError, "'%.200s' object does not support the context manager protocol%s",
                 Py_TYPE(manager)->tp_name, missed);
  return method;
}

Step before_with(Evaluation& e, int) {  // operand: the manager; results: its __exit__, the result of its __enter__
  static PyObject* const enter_name = PyUnicode_InternFromString("__enter__");
  static PyObject* const exit_name = PyUnicode_InternFromString("__exit__");
  Object enter = Object::take(lookup(e, peek(e.frame, 1), enter_name, ""));
  if (!enter) return Step::Error;
  Object exit = Object::take(lookup(e, peek(e.frame, 1), exit_name, " (missed __exit__ method)"));
  if (!exit) return Step::Error;
  PyObject* self[] = {nullptr};
  PyObject* x = e.operations.call(enter.get(), self + 1, PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  if (x == nullptr) return Step::Error;
  drop(e, 1);
  push(e.frame, exit.release());
  push(e.frame, x);
  return Step::Next;
}

Step with_except_start(Evaluation& e, int) {  // operands: __exit__, lasti, the previous exception, the exception
  PyObject* x = peek(e.frame, 1);
  Object traceback = Object::take(PyException_GetTraceback(x));
  PyObject* args[] = {nullptr, PyExceptionInstance_Class(x), x, traceback ? traceback.get() : Py_None};
  return replace(e, 0, e.operations.call(peek(e.frame, 4), args + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

constexpr Row rows[] = {
    {"BEFORE_WITH", 11, 13, before_with},
    {"WITH_EXCEPT_START", 11, 13, with_except_start},
};

}  // namespace

std::span<const Row> with_rows() { return rows; }

}  // namespace vesta::capture
