#include <algorithm>
#include <set>
#include <span>

#include "capture/python/segments/captured.h"

namespace vesta::capture {
namespace {

struct ByPointer {
  bool operator()(const Object& a, const Object& b) const { return a.get() < b.get(); }
};

thread_local Tracer* tracer = nullptr;
thread_local HookScope* hook_scope = nullptr;
// Weak references to the generators that frames of the present trace belong to.
thread_local std::set<Object, ByPointer> generators;

// How many scopes of all threads want the hook; the GIL guards both.
int wanted = 0;
EvalHook before = nullptr;

// A generator without callbacks has one weak reference: the set does not grow as it goes on.
void remember_generator(PyObject* generator) {
  PyObject* reference = PyWeakref_NewRef(generator, nullptr);
  if (reference)
    generators.insert(Object::take(reference));
  else
    PyErr_Clear();
}

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

// A method whose result C code goes through to its end.
bool gives_iterator(PyCodeObject* code) {
  static const char* const kNames[] = {"__iter__", "__reversed__"};
  return is_named(code, kNames);
}

// What a trace leaves suspended has never been for the program: no `finally` of its may run, now or later.
void abandon_generators(Tracer& t) {
  const std::set<Object, ByPointer> left = std::exchange(generators, {});
  if (left.empty()) return;
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  t.end();
  for (const Object& reference : left) {
    const Object generator = Object::share(PyWeakref_GetObject(reference.get()));
    const Object closed = Object::take(
        PyGen_CheckExact(generator.get()) ? PyObject_CallMethod(generator.get(), "close", nullptr) : nullptr);
    PyErr_Clear();
  }
  PyErr_Restore(type, value, trace);
}

// What a trace executes and does not trace. CPython's evaluator would let other threads in.
PyObject* evaluate_alone(PyThreadState* t, Frame* f, int throwflag) {
  class Alone final : public Operations {
    int pending(PyThreadState*) override { return 0; }
  };
  PyCodeObject* code = code_of(f);
  if ((code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR)) || is_observed(t, code))
    return evaluate_by_cpython(t, f, throwflag);
  Alone operations;
  return evaluate(t, f, throwflag, operations);
}

}  // namespace

PyObject* evaluation_hook(PyThreadState* t, Frame* f, int throwflag) {
  if (!HookOff::active()) {
    if (Tracer* tr = tracer) {
      const int flags = code_of(f)->co_flags;
      if (flags & (CO_COROUTINE | CO_ASYNC_GENERATOR)) {
        tr->graph_break(Break::Coroutine);
        return abandon(t, f);
      }
      if (!throwflag && is_fresh(f) && !tr->enter(f)) {
        const HookOff plainly;
        PyObject* found = evaluate_alone(t, f, 0);
        // No error of the program's: it knows of no symbols.
        if (!found && !tr->aborted()) tr->restart_without_symbols();
        return found;
      }
      // With an exception thrown in it may be closed by its own end, past which no weak reference is cleared.
      if (!throwflag && is_generator(f)) remember_generator(generator_of(f));
      const Tracer::Place caller = tr->place();
      const bool number = gives_number(code_of(f)), iterator = !is_generator(f) && gives_iterator(code_of(f));
      PyObject* result = evaluate(t, f, throwflag, *tr);
      tr->set_place(caller);
      if (number && result && is_symbolic_scalar(result)) Py_SETREF(result, tr->specialize(result));
      if (number && result && is_symbolic(result)) {
        Py_CLEAR(result);
        tr->restart_without_symbols();
      }
      if (iterator && result && !tr->may_advance(result)) Py_CLEAR(result);
      return result;
    }
    if (HookScope* a = hook_scope; a && !throwflag && (!a->code_ || a->code_ == code_of(f))) {
      Captured* captured = a->captured_;
      const HookScope::With with = a->with_;
      Gain* gain = a->gain_;
      hook_scope = nullptr;
      if (--wanted == 0) set_eval_hook(before);
      return with == HookScope::With::Capture ? captured->enter(t, f, gain)
                                              : captured->run_with_captured_calls(t, f, gain);
    }
  }
  if (before) return before(t, f, throwflag);
  return tracer ? evaluate_alone(t, f, throwflag) : evaluate_by_cpython(t, f, throwflag);
}

namespace {
void want() {
  if (wanted++ == 0) {
    before = get_eval_hook();
    if (before == evaluation_hook) before = nullptr;
    set_eval_hook(evaluation_hook);
  }
}
void unwant() {
  if (--wanted == 0) set_eval_hook(before);
}
}  // namespace

HookScope::HookScope(Captured& captured, PyCodeObject* code, Gain* gain, With with)
    : captured_(&captured), code_(code), gain_(gain), with_(with), outer_(hook_scope) {
  hook_scope = this;
  want();
}

HookScope::~HookScope() {
  if (hook_scope == this) unwant();
  hook_scope = outer_;
}

TracerScope::TracerScope(Tracer& t) : outer_(tracer) {
  tracer = &t;
  want();
}
TracerScope::~TracerScope() {
  abandon_generators(*tracer);
  tracer = outer_;
  unwant();
}

Tracer* tracing() { return tracer; }

}  // namespace vesta::capture
