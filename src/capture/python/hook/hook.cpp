#include "capture/python/hook/hook.h"

#include "capture/python/interpreter/evaluate.h"

namespace vesta::capture {
namespace {

thread_local FrameReceiver* tracer = nullptr;
thread_local HookScope* hook_scope = nullptr;
thread_local FrameReceiver* selecting = nullptr;
thread_local int off = 0;

// How many scopes of all threads want the hook. The GIL guards both.
int wanted = 0;
EvalHook before = nullptr;

}  // namespace

PyObject* evaluate_untraced(PyThreadState* t, Frame* f, int throwflag) {
  class Alone final : public Operations {
    int pending(PyThreadState*) override { return 0; }
  };
  PyCodeObject* code = code_of(f);
  if ((code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR)) || is_observed(t, code))
    return evaluate_by_cpython(t, f, throwflag);
  Alone operations;
  return evaluate(t, f, throwflag, operations);
}

PyObject* evaluation_hook(PyThreadState* t, Frame* f, int throwflag) {
  if (off == 0) {
    if (tracer) return tracer->receive(t, f, throwflag);
    if (HookScope* scope = hook_scope; scope && !throwflag && (!scope->code_ || scope->code_ == code_of(f))) {
      FrameReceiver* receiver = scope->receiver_;
      hook_scope = nullptr;
      if (--wanted == 0) set_eval_hook(before);
      return receiver->receive(t, f, throwflag);
    }
    if (FrameReceiver* receiver = selecting; receiver && !throwflag && receiver->wants(f)) {
      selecting = nullptr;
      PyObject* result = receiver->receive(t, f, throwflag);
      selecting = receiver;
      return result;
    }
  }
  if (before) return before(t, f, throwflag);
  return tracer ? evaluate_untraced(t, f, throwflag) : evaluate_by_cpython(t, f, throwflag);
}

namespace {

void want() {
  if (wanted++ > 0) return;
  before = get_eval_hook();
  if (before == evaluation_hook) before = nullptr;
  set_eval_hook(evaluation_hook);
}

void unwant() {
  if (--wanted == 0) set_eval_hook(before);
}

}  // namespace

HookScope::HookScope(FrameReceiver& receiver, PyCodeObject* code)
    : receiver_(&receiver), code_(code), outer_(hook_scope) {
  hook_scope = this;
  want();
}

HookScope::~HookScope() {
  if (hook_scope == this) unwant();
  hook_scope = outer_;
}

SelectingScope::SelectingScope(FrameReceiver& receiver) : outer_(selecting) {
  selecting = &receiver;
  want();
}

SelectingScope::~SelectingScope() {
  selecting = outer_;
  unwant();
}

TraceHookScope::TraceHookScope(FrameReceiver& receiver) : outer_(tracer) {
  tracer = &receiver;
  want();
}

TraceHookScope::~TraceHookScope() {
  tracer = outer_;
  unwant();
}

HookOff::HookOff() { ++off; }
HookOff::~HookOff() { --off; }

bool is_tracing() { return tracer != nullptr; }

}  // namespace vesta::capture
