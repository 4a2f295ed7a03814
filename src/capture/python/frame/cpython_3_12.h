// Frames of CPython 3.12. Only frame.cpp includes this. The evaluator clears frames by functions that it does not
// export: to leave a frame, we hand it to the evaluator at an instruction that leaves it.
#pragma once

#include <opcode.h>

#include "capture/python/frame/cpython_before_3_13.h"
#include "capture/python/frame/cpython_since_3_12.h"

namespace vesta::capture::layout {

inline bool observed(PyThreadState* t, PyCodeObject* code) {
  return t->interp->monitoring_version != 0 && is_monitored(t, code);
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

inline void suspend(PyThreadState* t, _PyInterpreterFrame* f, bool) { suspend_generator(t, f, FRAME_SUSPENDED); }

}  // namespace vesta::capture::layout
