// Frames of CPython 3.12. Only frame.cpp includes this. The evaluator clears frames by functions that it does not
// export: to leave a frame, we hand it to the evaluator at an instruction that leaves it.
#pragma once

#undef HAVE_STD_ATOMIC  // C's <stdatomic.h> is not C++; the compiler's builtins are the same

#include <internal/pycore_ceval.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <opcode.h>

namespace vesta::capture::layout {

inline PyCodeObject* code(const _PyInterpreterFrame* f) { return f->f_code; }
inline PyObject* function(const _PyInterpreterFrame* f) { return f->f_funcobj; }
// A frame that the evaluator makes each time C calls it; it runs no code of the program.
inline bool is_entry(const _PyInterpreterFrame* f) { return f->owner == FRAME_OWNED_BY_CSTACK; }
inline _PyInterpreterFrame*& current(PyThreadState* t) { return t->cframe->current_frame; }
inline _Py_CODEUNIT* first_unit(const _PyInterpreterFrame* f) { return _PyCode_CODE(f->f_code); }

// prev_instr is the unit before the next one; while an instruction executes, that instruction.
inline int executing(const _PyInterpreterFrame* f) { return static_cast<int>(f->prev_instr - first_unit(f)); }
inline void set_executing(_PyInterpreterFrame* f, int position) { f->prev_instr = first_unit(f) + position; }
inline int next(const _PyInterpreterFrame* f) { return executing(f) + 1; }
inline void set_next(_PyInterpreterFrame* f, int position) { set_executing(f, position - 1); }

inline Py_ssize_t request_extra(freefunc free) { return PyUnstable_Eval_RequestCodeExtraIndex(free); }
inline int get_extra(PyObject* code, Py_ssize_t index, void** extra) {
  return PyUnstable_Code_GetExtra(code, index, extra);
}
inline int set_extra(PyObject* code, Py_ssize_t index, void* extra) {
  return PyUnstable_Code_SetExtra(code, index, extra);
}

inline bool observed(PyThreadState* t, PyCodeObject* code) {
  uint64_t version = t->interp->monitoring_version;
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

inline PyObject* throw_at(PyThreadState* t, _PyInterpreterFrame* f, int position) {
  set_executing(f, position);
  return _PyEval_EvalFrameDefault(t, f, 1);
}

// `position` holds a RETURN_VALUE or, with no value, a RETURN_CONST; -1: neither is in the code.
inline PyObject* finish(PyThreadState* t, _PyInterpreterFrame* f, PyObject* value, int position) {
  static _Py_CODEUNIT return_value[2];
  if (value != nullptr) f->localsplus[f->stacktop++] = value;
  if (position >= 0) {
    set_next(f, position);
  } else {  // the evaluator reads instructions at any address
    return_value[1].op.code = RETURN_VALUE;
    f->prev_instr = return_value;
  }
  t->c_recursion_remaining += 2;  // leaving must not fail
  PyObject* result = _PyEval_EvalFrameDefault(t, f, 0);
  t->c_recursion_remaining -= 2;
  return result;
}

// Raises the error at an instruction without a handler, if need be past the end of the code. Removes the traceback
// entry that this adds, and gives a frame object that outlives the frame its true position.
inline PyObject* abandon(PyThreadState* t, _PyInterpreterFrame* f, bool handled) {
  PyObject* error = PyErr_GetRaisedException();
  PyObject* traceback = PyException_GetTraceback(error);
  PyErr_SetRaisedException(error);
  int position = executing(f);
  PyFrameObject* object = f->frame_obj;
  Py_XINCREF(object);
  t->c_recursion_remaining += 2;
  throw_at(t, f, handled ? static_cast<int>(Py_SIZE(code(f))) : position);
  t->c_recursion_remaining -= 2;
  if (object != nullptr) {
    if (object->f_frame != nullptr && object->f_frame->owner == FRAME_OWNED_BY_FRAME_OBJECT)
      set_executing(object->f_frame, position);
    Py_DECREF(object);
  }
  PyObject* now = PyErr_GetRaisedException();
  if (now == error) PyException_SetTraceback(now, traceback != nullptr ? traceback : Py_None);
  Py_XDECREF(traceback);
  PyErr_SetRaisedException(now);
  return nullptr;
}

inline void suspend(PyThreadState* t, _PyInterpreterFrame* f, bool) {
  PyGenObject* generator = _PyFrame_GetGenerator(f);
  generator->gi_frame_state = FRAME_SUSPENDED;
  t->exc_info = generator->gi_exc_state.previous_item;
  generator->gi_exc_state.previous_item = nullptr;
  f->previous = nullptr;
}

inline int handle_pending(PyThreadState* t) {
  _ceval_state& state = t->interp->ceval;
  if (!_Py_atomic_load_relaxed(&state.eval_breaker)) return 0;
  if (PyErr_CheckSignals() < 0 || Py_MakePendingCalls() < 0) return -1;  // the former collects garbage as well
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
