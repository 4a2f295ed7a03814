#include "capture/python/segments/captured.h"

namespace vesta::capture {
namespace {

thread_local Tracer* tracer = nullptr;
thread_local Arrival* arrival = nullptr;
thread_local int off = 0;

// How many scopes of all threads want the hook; the GIL guards both.
int wanted = 0;
EvalHook before = nullptr;

}  // namespace

PyObject* evaluation_hook(PyThreadState* t, Frame* f, int throwflag) {
  if (off == 0) {
    if (Tracer* tr = tracer) {
      const int flags = code_of(f)->co_flags;
      if (flags & (CO_COROUTINE | CO_ASYNC_GENERATOR)) {
        tr->give_up("runs a coroutine");
        return abandon(t, f);
      }
      if (!throwflag && is_fresh(f) && !tr->enter(f)) {
        const HookOff plainly;
        return evaluate_by_cpython(t, f, 0);
      }
      return evaluate(t, f, throwflag, *tr);
    }
    if (Arrival* a = arrival; a && !throwflag && (!a->code_ || a->code_ == code_of(f))) {
      Captured* captured = a->captured_;
      arrival = nullptr;
      if (--wanted == 0) set_eval_hook(before);
      return captured->enter(t, f);
    }
  }
  return before ? before(t, f, throwflag) : evaluate_by_cpython(t, f, throwflag);
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

Arrival::Arrival(Captured& captured, PyCodeObject* code) : captured_(&captured), code_(code), outer_(arrival) {
  arrival = this;
  want();
}

Arrival::~Arrival() {
  if (arrival == this) unwant();
  arrival = outer_;
}

TracerScope::TracerScope(Tracer& t) : outer_(tracer) {
  tracer = &t;
  want();
}
TracerScope::~TracerScope() {
  tracer = outer_;
  unwant();
}

HookOff::HookOff() { ++off; }
HookOff::~HookOff() { --off; }

bool is_tracing_thread() { return tracer != nullptr; }

}  // namespace vesta::capture
