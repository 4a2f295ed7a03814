// Instructions of generator bodies. CPython makes the generator itself: see evaluate().
#include "capture/python/interpreter/handlers.h"

namespace vesta::capture {
namespace {

Step yield_value(Evaluation& e, int) {
  e.result = pop(e.frame);
  return Step::Yield;
}

Step get_yield_from_iter(Evaluation& e, int) {
  PyObject* x = peek(e.frame, 1);
  if (PyCoro_CheckExact(x)) {
    if ((code_of(e.frame)->co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE)) != 0) return Step::Next;
    return fail(PyExc_TypeError, "cannot 'yield from' a coroutine object in a non-coroutine generator");
  }
  return PyGen_CheckExact(x) ? Step::Next : replace(e, 1, e.operations.get_iter(x));
}

Step send(Evaluation& e,
          int oparg) {  // operands: the receiver, the value; results: the receiver (3.11: not at its end), the answer
  PyObject* x = nullptr;
  if (e.operations.changes(peek(e.frame, 2)) < 0) return Step::Error;
  switch (PyIter_Send(peek(e.frame, 2), peek(e.frame, 1), &x)) {
    case PYGEN_ERROR: return Step::Error;
    case PYGEN_NEXT: return replace(e, 1, x);
    case PYGEN_RETURN: break;
  }
  e.position += oparg;
  return replace(e, python_minor == 11 ? 2 : 1, x);
}

Step end_send(Evaluation& e, int) {
  PyObject* value = pop(e.frame);
  return replace(e, 1, value);
}

// The outermost iterable of an asynchronous generator expression, which any function may contain.
Step get_aiter(Evaluation& e, int) {
  PyObject* x = peek(e.frame, 1);
  PyAsyncMethods* methods = Py_TYPE(x)->tp_as_async;
  if (methods == nullptr || methods->am_aiter == nullptr)
    return fail(PyExc_TypeError, "'async for' requires an object with __aiter__ method, got %.100s",
                Py_TYPE(x)->tp_name);
  Object iterator = Object::take(methods->am_aiter(x));
  if (!iterator) return Step::Error;
  methods = Py_TYPE(iterator.get())->tp_as_async;
  if (methods == nullptr || methods->am_anext == nullptr)
    return fail(PyExc_TypeError,
                "'async for' received an object from __aiter__ that does not implement __anext__: %.100s",
                Py_TYPE(iterator.get())->tp_name);
  return replace(e, 1, iterator.release());
}

constexpr Row kGeneratorRows[] = {
    {"YIELD_VALUE", 11, 13, yield_value}, {"GET_YIELD_FROM_ITER", 11, 13, get_yield_from_iter},
    {"GET_AITER", 11, 13, get_aiter},     {"SEND", 11, 13, send},
    {"END_SEND", 12, 13, end_send},
};

}  // namespace

std::span<const Row> generator_rows() { return kGeneratorRows; }

}  // namespace vesta::capture
