// Frames of CPython 3.13. Only frame.cpp includes this. CPython exports the function that clears a frame.
#pragma once

#include "capture/python/frame/cpython_since_3_12.h"

namespace vesta::capture::layout {

inline PyCodeObject* code(const _PyInterpreterFrame* f) { return reinterpret_cast<PyCodeObject*>(f->f_executable); }
inline _PyInterpreterFrame*& current(PyThreadState* t) { return t->current_frame; }
inline _Py_CODEUNIT* first_unit(const _PyInterpreterFrame* f) { return _PyCode_CODE(code(f)); }

// instr_ptr is the instruction that executes or, in a frame that does not run, the next one.
inline int executing(const _PyInterpreterFrame* f) { return static_cast<int>(f->instr_ptr - first_unit(f)); }
inline void set_executing(_PyInterpreterFrame* f, int position) { f->instr_ptr = first_unit(f) + position; }
inline int next(const _PyInterpreterFrame* f) { return executing(f); }
inline void set_next(_PyInterpreterFrame* f, int position) { set_executing(f, position); }

inline bool observed(PyThreadState* t, PyCodeObject* code) {
  return (t->eval_breaker & ~static_cast<uintptr_t>(_PY_EVAL_EVENTS_MASK)) != 0 && is_monitored(t, code);
}

inline PyObject* finish(PyThreadState* t, _PyInterpreterFrame* f, PyObject* value, int position) {
  set_executing(f, position);
  _PyEval_FrameClearAndPop(t, f);
  return value;
}
inline PyObject* abandon(PyThreadState* t, _PyInterpreterFrame* f) {
  PyObject* error = PyErr_GetRaisedException();
  _PyEval_FrameClearAndPop(t, f);
  PyErr_SetRaisedException(error);
  return nullptr;
}

inline void suspend(PyThreadState* t, _PyInterpreterFrame* f, bool delegating) {
  f->instr_ptr++;
  suspend_generator(t, f, delegating ? FRAME_SUSPENDED_YIELD_FROM : FRAME_SUSPENDED);
}

inline bool has_signal() {
  if (PyThread_get_thread_ident() != _PyRuntime.main_thread) return false;
  const PyThreadState* const main = _PyRuntime.main_tstate;
  return main != nullptr && (__atomic_load_n(&main->eval_breaker, __ATOMIC_RELAXED) & _PY_SIGNALS_PENDING_BIT) != 0;
}

inline int handle_pending(PyThreadState* t) {
  return (t->eval_breaker & _PY_EVAL_EVENTS_MASK) != 0 ? _Py_HandlePending(t) : 0;
}

}  // namespace vesta::capture::layout
