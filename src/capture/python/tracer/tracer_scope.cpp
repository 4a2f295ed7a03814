#include "capture/python/tracer/tracer_scope.h"

#include <algorithm>
#include <span>
#include <utility>

#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/symbolic_scalar.h"
#include "capture/python/tracer/tracer.h"

namespace vesta::capture {
namespace {

thread_local Tracer* current = nullptr;

bool is_named(PyCodeObject* code, std::span<const char* const> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const char* name) { return PyUnicode_CompareWithASCIIString(code->co_name, name) == 0; });
}

// A method whose result C code takes for a plain number.
bool gives_number(PyCodeObject* code) {
  static const char* const kNames[] = {"__bool__", "__len__",   "__hash__",    "__index__",
                                       "__int__",  "__float__", "__complex__", "__length_hint__"};
  return is_named(code, kNames);
}

// A method whose result C code iterates to its end.
bool gives_iterator(PyCodeObject* code) {
  static const char* const kNames[] = {"__iter__", "__reversed__"};
  return is_named(code, kNames);
}

}  // namespace

TracerScope::TracerScope(Tracer& t) : tracer_(t), outer_(std::exchange(current, &t)), hook_(*this) {}

TracerScope::~TracerScope() {
  close_generators();
  current = outer_;
}

// A generator without callbacks has one weak reference: the set does not grow as it goes on.
void TracerScope::remember_generator(PyObject* generator) {
  PyObject* reference = PyWeakref_NewRef(generator, nullptr);
  if (reference)
    generators_.insert(Object::take(reference));
  else
    PyErr_Clear();
}

// A generator that a trace leaves suspended never existed for the program: no `finally` of it may run, now or later.
void TracerScope::close_generators() {
  const std::set<Object, ByPointer> left = std::exchange(generators_, {});
  if (left.empty()) return;
  const ErrorAside error;
  tracer_.trace.progress.end();
  for (const Object& reference : left) {
    const Object generator = Object::share(PyWeakref_GetObject(reference.get()));
    const Object closed = Object::take(
        PyGen_CheckExact(generator.get()) ? PyObject_CallMethod(generator.get(), "close", nullptr) : nullptr);
    PyErr_Clear();
  }
}

PyObject* TracerScope::trace_frame(PyThreadState* t, Frame* f, int throwflag) {
  PyCodeObject* code = code_of(f);
  const Progress::Place caller = tracer_.trace.progress.place();
  const bool number = gives_number(code), iterator = !is_generator(f) && gives_iterator(code);
  const bool makes_generator = !is_generator(f) && (code->co_flags & CO_GENERATOR) != 0;
  PyObject* result = evaluate(t, f, throwflag, tracer_);
  tracer_.trace.progress.set_place(caller);
  if (result && makes_generator) tracer_.trace.made.add_generator(result);
  if (number && result && is_symbolic_scalar(result)) Py_SETREF(result, tracer_.trace.numbers.specialize(result));
  if (number && result && is_symbolic(result)) {
    Py_CLEAR(result);
    tracer_.trace.graph_break(Break::SymbolicNumber);
  }
  if (iterator && result && !tracer_.trace.items.may_advance(result)) Py_CLEAR(result);
  return result;
}

PyObject* TracerScope::receive(PyThreadState* t, Frame* f, int throwflag) {
  if (code_of(f)->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR)) {
    tracer_.trace.graph_break(Break::Coroutine);
    return abandon(t, f);
  }
  if (!throwflag && is_fresh(f) && !tracer_.trace.functions.enter(f)) {
    const HookOff plainly;
    PyObject* found = evaluate_untraced(t, f, 0);
    // No error of the program's: an operator could not be traced, or the function knows of no symbols.
    if (!found && !tracer_.trace.ended()) {
      Reason failure = trace_failure();
      tracer_.trace.graph_break(failure.empty() ? reason_for(Break::SymbolicNumber) : std::move(failure));
    }
    return found;
  }
  // A generator with an exception thrown into it may end here, and its weak references with it.
  if (!throwflag && is_generator(f)) remember_generator(generator_of(f));
  return trace_frame(t, f, throwflag);
}

Tracer* tracing() { return current; }

}  // namespace vesta::capture
