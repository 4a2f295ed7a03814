// What has no instruction of its own from 3.12 on, or is met by the interactive prompt alone.
#include "capture/python/interpreter/exception_groups.h"
#include "capture/python/interpreter/handlers.h"
#include "capture/python/interpreter/imports.h"

namespace vesta::capture {
namespace {

PyObject* display(PyObject* x) {
  PyObject* hook = PySys_GetObject("displayhook");
  if (hook == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "lost sys.displayhook");
    return nullptr;
  }
  return PyObject_CallOneArg(hook, x);
}

Step print_expr(Evaluation& e, int) {
  Owned nothing(display(peek(e.frame, 1)));
  return done(e, 1, nothing ? 0 : -1);
}

// A StopIteration that would leave a generator.
PyObject* convert_stop_iteration(Evaluation& e, PyObject* x) {
  int flags = code_of(e.frame)->co_flags;
  const char* what = nullptr;
  if (PyErr_GivenExceptionMatches(x, PyExc_StopIteration)) {
    what = (flags & CO_ASYNC_GENERATOR) != 0 ? "async generator raised StopIteration"
           : (flags & CO_COROUTINE) != 0     ? "coroutine raised StopIteration"
                                             : "generator raised StopIteration";
  } else if ((flags & CO_ASYNC_GENERATOR) != 0 && PyErr_GivenExceptionMatches(x, PyExc_StopAsyncIteration)) {
    what = "async generator raised StopAsyncIteration";
  }
  if (what == nullptr) return Py_NewRef(x);
  PyObject* error = PyObject_CallFunction(PyExc_RuntimeError, "s", what);
  if (error == nullptr) return nullptr;
  PyException_SetCause(error, Py_NewRef(x));
  PyException_SetContext(error, Py_NewRef(x));
  return error;
}

// A function of `count` arguments that does one intrinsic of CPython's, by CPython: +x and x if y are turned into it.
PyObject* by_cpython(int count, int intrinsic, PyObject* const* args) {
#if PY_VERSION_HEX >= 0x030c0000
  static PyObject* const functions = PyDict_New();
  Owned key(Py_BuildValue("(ii)", count, intrinsic));
  if (!key) return nullptr;
  PyObject* function = PyDict_GetItemWithError(functions, key.get());
  if (function == nullptr) {
    if (PyErr_Occurred() != nullptr) return nullptr;
    Owned module(PyImport_ImportModule("vesta._intrinsics"));
    Owned made(module ? PyObject_CallMethod(module.get(), "make", "ii", count, intrinsic) : nullptr);
    if (!made || PyDict_SetItem(functions, key.get(), made.get()) < 0) return nullptr;
    function = made.get();
  }
  return PyObject_Vectorcall(function, args, static_cast<size_t>(count), nullptr);
#else
  (void)count, (void)intrinsic, (void)args;
  return nullptr;
#endif
}

enum One { Print = 1, ImportStar, StopIterationError, AsyncGenWrap, UnaryPositive, ListToTuple };
enum Two { PrepReraiseStar = 1 };

Step call_intrinsic_1(Evaluation& e, int oparg) {
  PyObject* x = peek(e.frame, 1);
  switch (oparg) {
    case Print: return replace(e, 1, display(x));
    case ImportStar: {
      PyObject* space = locals_of(e.frame);
      if (space == nullptr) PyErr_SetString(PyExc_SystemError, "no locals found during 'import *'");
      bool imported = space != nullptr && import_all(space, x) == 0;
      return imported ? replace(e, 1, Py_NewRef(Py_None)) : Step::Error;
    }
    case StopIterationError: return replace(e, 1, convert_stop_iteration(e, x));
    case UnaryPositive: return replace(e, 1, e.operations.unary(Operations::Unary::Positive, x));
    case ListToTuple: return replace(e, 1, e.operations.list_to_tuple(x));
    default: return replace(e, 1, by_cpython(1, oparg, &peek(e.frame, 1)));
  }
}

Step call_intrinsic_2(Evaluation& e, int oparg) {
  if (oparg == PrepReraiseStar) return replace(e, 2, prep_reraise_star(peek(e.frame, 2), peek(e.frame, 1)));
  return replace(e, 2, by_cpython(2, oparg, &peek(e.frame, 2)));
}

constexpr Row rows[] = {
    {"PRINT_EXPR", 11, 11, print_expr},
    {"CALL_INTRINSIC_1", 12, 13, call_intrinsic_1},
    {"CALL_INTRINSIC_2", 12, 13, call_intrinsic_2},
};

}  // namespace

std::span<const Row> intrinsic_rows() { return rows; }

}  // namespace vesta::capture
