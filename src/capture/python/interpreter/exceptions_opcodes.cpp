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
  if (x && !PyExceptionInstance_Check(x.get()))
    return PyErr_Format(PyExc_TypeError, "calling %R should have returned an instance of BaseException, not %R", type,
                        reinterpret_cast<PyObject*>(Py_TYPE(x.get())));
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
    return fail(PyExc_RuntimeError, "No active exception to reraise");
  }
  raise(peek(e.frame, oparg), oparg == 2 ? peek(e.frame, 1) : nullptr);
  return Step::Error;
}

Step reraise(Evaluation& e, int oparg) {
  if (oparg != 0) {  // tracebacks show the line at which the error was raised first
    PyObject* where = peek(e.frame, oparg + 1);
    if (!PyLong_Check(where)) return fail(PyExc_SystemError, "lasti is not an int");
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
  if (python_minor >= 13 && previous == Py_None) Py_CLEAR(previous);
  Py_XSETREF(e.thread->exc_info->exc_value, previous);
  return Step::Next;
}

// The members of a tuple, or the object alone.
std::span<PyObject* const> one_or_all(PyObject* const& x) { return PyTuple_Check(x) ? span_of(x) : std::span(&x, 1); }

bool are_exception_classes(PyObject* types) {
  const bool valid = std::ranges::all_of(one_or_all(types), [](PyObject* x) { return PyExceptionClass_Check(x); });
  if (!valid)
    PyErr_SetString(PyExc_TypeError, "catching classes that do not inherit from BaseException is not allowed");
  return valid;
}

// `except*` must not name exception groups.
bool are_plain_classes(PyObject* types) {
  if (!are_exception_classes(types)) return false;
  for (PyObject* type : one_or_all(types)) {
    int group = PyObject_IsSubclass(type, PyExc_BaseExceptionGroup);
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

Step load_assertion_error(Evaluation& e, int) { return replace(e, 0, Py_NewRef(PyExc_AssertionError)); }

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

PyObject* lookup(Evaluation& e, PyObject* manager, PyObject* name, const char* missed) {
  PyObject* method = e.operations.lookup_special(manager, name);
  if (method == nullptr && PyErr_Occurred() == nullptr)
    PyErr_Format(PyExc_TypeError, "'%.200s' object does not support the context manager protocol%s",
                 Py_TYPE(manager)->tp_name, missed);
  return method;
}

Step before_with(Evaluation& e, int) {  // operand: the manager; results: its __exit__, the result of its __enter__
  Object enter = Object::take(lookup(e, peek(e.frame, 1), "__enter__"_name, ""));
  if (!enter) return Step::Error;
  Object exit = Object::take(lookup(e, peek(e.frame, 1), "__exit__"_name, " (missed __exit__ method)"));
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

constexpr Row kExceptionRows[] = {
    {"RAISE_VARARGS", 11, 13, raise_varargs},          {"RERAISE", 11, 13, reraise},
    {"PUSH_EXC_INFO", 11, 13, push_exc_info},          {"POP_EXCEPT", 11, 13, pop_except},
    {"CHECK_EXC_MATCH", 11, 13, check_exc_match},      {"CHECK_EG_MATCH", 11, 13, check_eg_match},
    {"PREP_RERAISE_STAR", 11, 11, prep_reraise_star_}, {"LOAD_ASSERTION_ERROR", 11, 13, load_assertion_error},
    {"CLEANUP_THROW", 12, 13, cleanup_throw},          {"BEFORE_WITH", 11, 13, before_with},
    {"WITH_EXCEPT_START", 11, 13, with_except_start},
};

}  // namespace

std::span<const Row> exception_rows() { return kExceptionRows; }

}  // namespace vesta::capture
