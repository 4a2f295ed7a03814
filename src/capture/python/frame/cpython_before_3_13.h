// What frames of CPython 3.11 and 3.12 have in common. Only the headers of these versions include this.
#pragma once

#undef HAVE_STD_ATOMIC  // C's <stdatomic.h> is not C++; the compiler's builtins are the same

#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>

namespace vesta::capture::layout {

inline PyCodeObject* code(const _PyInterpreterFrame* f) { return f->f_code; }
inline _PyInterpreterFrame*& current(PyThreadState* t) { return t->cframe->current_frame; }
inline _Py_CODEUNIT* first_unit(const _PyInterpreterFrame* f) { return _PyCode_CODE(f->f_code); }

// prev_instr is the unit before the next one; while an instruction executes, that instruction.
inline int executing(const _PyInterpreterFrame* f) { return static_cast<int>(f->prev_instr - first_unit(f)); }
inline void set_executing(_PyInterpreterFrame* f, int position) { f->prev_instr = first_unit(f) + position; }
inline int next(const _PyInterpreterFrame* f) { return executing(f) + 1; }
inline void set_next(_PyInterpreterFrame* f, int position) { set_executing(f, position - 1); }

inline PyObject* throw_at(PyThreadState* t, _PyInterpreterFrame* f, int position) {
  set_executing(f, position);
  return _PyEval_EvalFrameDefault(t, f, 1);
}

inline bool has_signal() {
  return _Py_atomic_load_relaxed(&_PyRuntime.ceval.signals_pending) != 0 &&
         PyThread_get_thread_ident() == _PyRuntime.main_thread;
}

inline int handle_pending(PyThreadState* t) {
  _ceval_state& state = t->interp->ceval;
  if (!_Py_atomic_load_relaxed(&state.eval_breaker)) return 0;
  if (PyErr_CheckSignals() < 0 || Py_MakePendingCalls() < 0) return -1;  // in 3.12 the former collects garbage as well
  if (_Py_atomic_load_relaxed(&state.gil_drop_request)) PyEval_RestoreThread(PyEval_SaveThread());
  if (PyObject* error = t->async_exc) {
    t->async_exc = nullptr;
    PyErr_SetNone(error);
    Py_DECREF(error);
    return -1;
  }
  return 0;
}

}  // namespace vesta::capture::layout
