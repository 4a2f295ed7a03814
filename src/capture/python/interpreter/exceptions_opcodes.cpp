#include "capture/python/interpreter/exception_groups.h"
#include "capture/python/interpreter/handlers.h"

namespace vesta::capture {
namespace {

// Sets the exception instance x (borrowed) as the error, without a new context.
void set_raised(PyObject* x) {
#if PY_VERSION_HEX >= 0x030c0000
  PyErr_SetRaisedException(Py_NewRef(x));
#else
  PyErr_Restore(Py_NewRef(PyExceptionInstance_Class(x)), Py_NewRef(x), PyException_GetTraceback(x));
#endif
}

Step reraise_as_it_is(Evaluation& e, PyObject* x) {
  set_raised(x);
  e.reraised = true;
  return Step::Error;
}

// The exception of `raise x` or, if it is the cause, of `from x`; nullptr with an error set.
PyObject* instantiate(PyObject* type) {
  Object x = Object::take(PyObject_CallNoArgs(type));
  if (x && !PyExceptionInstance_Check(x.get())) {
    PyErr_Format(PyExc_TypeError, "calling %R should have returned an instance of BaseException, not %R", type,
                 reinterpret_cast<PyObject*>(Py_TYPE(x.get())));
    return nullptr;
  }
  return x.release();
}

void raise(PyObject* x, PyObject* cause) {
  Object value, fixed;
  PyObject* type = nullptr;
  if (PyExceptionClass_Check(x)) {
    type = x;
    value = Object::take(instantiate(x));
    if (!value) return;
  } else if (PyExceptionInstance_Check(x)) {
    type = PyExceptionInstance_Class(x);
    value = Object::share(x);
  } else {
    PyErr_SetString(PyExc_TypeError, "exceptions must derive from BaseException");
    return;
  }
  if (cause != nullptr) {
    if (PyExceptionClass_Check(cause)) {
      fixed = Object::take(python_minor >= 13 ? instantiate(cause) : PyObject_CallNoArgs(cause));
      if (!fixed) return;
    } else if (PyExceptionInstance_Check(cause)) {
      fixed = Object::share(cause);
    } else if (cause != Py_None) {
      PyErr_SetString(PyExc_TypeError, "exception causes must derive from BaseException");
      return;
    }
    PyException_SetCause(value.get(), fixed.release());
  }
  PyErr_SetObject(type, value.get());
}

Step raise_varargs(Evaluation& e, int oparg) {
  if (oparg == 0) {
    Object handled = Object::take(PyErr_GetHandledException());
    if (handled && handled.get() != Py_None) return reraise_as_it_is(e, handled.get());
    PyErr_SetString(PyExc_RuntimeError, "No active exception to reraise");
  } else {
    raise(peek(e.frame, oparg), oparg == 2 ? peek(e.frame, 1) : nullptr);
  }
  return Step::Error;
}

Step reraise(Evaluation& e, int oparg) {
  if (oparg != 0) {  // tracebacks show the line at which the error was raised first
    PyObject* where = peek(e.frame, oparg + 1);
    if (!PyLong_Check(where)) {
      PyErr_SetString(PyExc_SystemError, "lasti is not an int");
      return Step::Error;
    }
    set_executing(e.frame, static_cast<int>(PyLong_AsLong(where)));
  }
  Object x = Object::take(pop(e.frame));
  return reraise_as_it_is(e, x.get());
}

Step push_exc_info(Evaluation& e, int) {
  PyObject* x = pop(e.frame);
  _PyErr_StackItem* info = e.thread->exc_info;
  push(e.frame, info->exc_value != nullptr ? info->exc_value : Py_NewRef(Py_None));
  info->exc_value = Py_NewRef(x);
  push(e.frame, x);
  return Step::Next;
}

Step pop_except(Evaluation& e, int) {
  PyObject* previous = pop(e.frame);
  if (python_minor >= 13 && previous == Py_None) {
    Py_DECREF(previous);
    previous = nullptr;
  }
  _PyErr_StackItem* info = e.thread->exc_info;
  PyObject* old = info->exc_value;
  info->exc_value = previous;
  Py_XDECREF(old);
  return Step::Next;
}

bool are_exception_classes(PyObject* types) {
  bool valid = true;
  if (PyTuple_Check(types)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(types); ++i)
      valid = valid && PyExceptionClass_Check(PyTuple_GET_ITEM(types, i));
  } else {
    valid = PyExceptionClass_Check(types);
  }
  if (!valid)
    PyErr_SetString(PyExc_TypeError, "catching classes that do not inherit from BaseException is not allowed");
  return valid;
}

// `except*` must not name exception groups.
bool are_plain_classes(PyObject* types) {
  if (!are_exception_classes(types)) return false;
  bool tuple = PyTuple_Check(types);
  for (Py_ssize_t i = 0; i < (tuple ? PyTuple_GET_SIZE(types) : 1); ++i) {
    int group = PyObject_IsSubclass(tuple ? PyTuple_GET_ITEM(types, i) : types, PyExc_BaseExceptionGroup);
    if (group < 0) return false;
    if (group > 0) {
      PyErr_SetString(PyExc_TypeError, "catching ExceptionGroup with except* is not allowed. Use except instead.");
      return false;
    }
  }
  return true;
}

Step check_exc_match(Evaluation& e, int) {
  if (!are_exception_classes(peek(e.frame, 1))) return Step::Error;
  int match = PyErr_GivenExceptionMatches(peek(e.frame, 2), peek(e.frame, 1));
  return replace(e, 1, boolean(match != 0));
}

Step check_eg_match(Evaluation& e,
                    int) {  // operands: the exception, the types; results: the rest, the match (each may be None)
  if (!are_plain_classes(peek(e.frame, 1))) return Step::Error;
  Object match, rest;
  if (split_group(peek(e.frame, 2), peek(e.frame, 1), match, rest) < 0) return Step::Error;
  if (match.get() == Py_None) return replace(e, 1, match.release());
  PyErr_SetHandledException(match.get());
  drop(e, 2);
  push(e.frame, rest.release());
  push(e.frame, match.release());
  return Step::Next;
}

Step prep_reraise_star_(Evaluation& e, int) {
  return replace(e, 2, prep_reraise_star(peek(e.frame, 2), peek(e.frame, 1)));
}

Step load_assertion_error(Evaluation& e, int) {
  push(e.frame, Py_NewRef(PyExc_AssertionError));
  return Step::Next;
}

Step cleanup_throw(Evaluation& e,
                   int) {  // operands: the subiterator, the last value sent to it, the exception that throw() raised
  PyObject* x = peek(e.frame, 1);
  if (!PyErr_GivenExceptionMatches(x, PyExc_StopIteration)) return reraise_as_it_is(e, x);
  PyObject* value = Py_NewRef(reinterpret_cast<PyStopIterationObject*>(x)->value);
  drop(e, 3);
  push(e.frame, Py_NewRef(Py_None));
  push(e.frame, value);
  return Step::Next;
}

constexpr Row rows[] = {
    {"RAISE_VARARGS", 11, 13, raise_varargs},          {"RERAISE", 11, 13, reraise},
    {"PUSH_EXC_INFO", 11, 13, push_exc_info},          {"POP_EXCEPT", 11, 13, pop_except},
    {"CHECK_EXC_MATCH", 11, 13, check_exc_match},      {"CHECK_EG_MATCH", 11, 13, check_eg_match},
    {"PREP_RERAISE_STAR", 11, 11, prep_reraise_star_}, {"LOAD_ASSERTION_ERROR", 11, 13, load_assertion_error},
    {"CLEANUP_THROW", 12, 13, cleanup_throw},
};

}  // namespace

std::span<const Row> exception_rows() { return rows; }

}  // namespace vesta::capture
