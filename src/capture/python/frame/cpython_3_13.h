// Frames of CPython 3.13. Only frame.cpp includes this. CPython exports the function that clears a frame.
#pragma once

#include <internal/pycore_ceval.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>

namespace vesta::capture::layout {

inline PyCodeObject* code(const _PyInterpreterFrame* f) { return reinterpret_cast<PyCodeObject*>(f->f_executable); }
inline PyObject* function(const _PyInterpreterFrame* f) { return f->f_funcobj; }
// A frame that the evaluator makes each time C calls it; it runs no code of the program.
inline bool is_entry(const _PyInterpreterFrame* f) { return f->owner == FRAME_OWNED_BY_CSTACK; }
inline _PyInterpreterFrame*& current(PyThreadState* t) { return t->current_frame; }
inline _Py_CODEUNIT* first_unit(const _PyInterpreterFrame* f) { return _PyCode_CODE(code(f)); }

// instr_ptr is the instruction that executes or, in a frame that does not run, the next one.
inline int executing(const _PyInterpreterFrame* f) { return static_cast<int>(f->instr_ptr - first_unit(f)); }
inline void set_executing(_PyInterpreterFrame* f, int position) { f->instr_ptr = first_unit(f) + position; }
inline int next(const _PyInterpreterFrame* f) { return executing(f); }
inline void set_next(_PyInterpreterFrame* f, int position) { set_executing(f, position); }

inline Py_ssize_t request_extra(freefunc free) { return PyUnstable_Eval_RequestCodeExtraIndex(free); }
inline int get_extra(PyObject* code, Py_ssize_t index, void** extra) {
  return PyUnstable_Code_GetExtra(code, index, extra);
}
inline int set_extra(PyObject* code, Py_ssize_t index, void* extra) {
  return PyUnstable_Code_SetExtra(code, index, extra);
}

inline bool observed(PyThreadState* t, PyCodeObject* code) {
  uintptr_t version = t->eval_breaker & ~static_cast<uintptr_t>(_PY_EVAL_EVENTS_MASK);
  if (version == 0) return false;                        // no tool was ever registered
  for (unsigned char tools : t->interp->monitors.tools)  // events without an instruction, such as exceptions
    if (tools != 0) return true;
  const _PyCoMonitoringData* data = code->_co_monitoring;
  if (data == nullptr) return false;
  for (unsigned char tools : data->local_monitors.tools)
    if (tools != 0) return true;
  for (unsigned char tools : data->active_monitors.tools)  // of an old version: RESUME removes them from the code
    if (tools != 0) return true;
  return t->tracing != 0;
}

// Counts against Python's limit alone: C's estimates the stack, which enter_recursion() measures.
inline bool enter_recursion(PyThreadState* t) {
  if (t->py_recursion_remaining-- > 0 || t->recursion_headroom != 0) return true;
  t->recursion_headroom++;
  PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded");
  t->recursion_headroom--;
  t->py_recursion_remaining++;
  return false;
}
inline void leave_recursion(PyThreadState* t) { t->py_recursion_remaining++; }

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
  PyGenObject* generator = _PyFrame_GetGenerator(f);
  f->instr_ptr++;
  generator->gi_frame_state = static_cast<int8_t>(delegating ? FRAME_SUSPENDED_YIELD_FROM : FRAME_SUSPENDED);
  t->exc_info = generator->gi_exc_state.previous_item;
  generator->gi_exc_state.previous_item = nullptr;
  f->previous = nullptr;
}

inline int handle_pending(PyThreadState* t) {
  return (t->eval_breaker & _PY_EVAL_EVENTS_MASK) != 0 ? _Py_HandlePending(t) : 0;
}

}  // namespace vesta::capture::layout
