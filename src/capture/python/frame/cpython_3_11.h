// Frames of CPython 3.11. Only frame.cpp includes this. The C function that called the evaluator clears the frame.
#pragma once

#include "capture/python/frame/cpython_before_3_13.h"

namespace vesta::capture::layout {

inline PyObject* function(const _PyInterpreterFrame* f) { return reinterpret_cast<PyObject*>(f->f_func); }
inline bool is_entry(const _PyInterpreterFrame*) { return false; }

inline Py_ssize_t request_extra(freefunc free) { return _PyEval_RequestCodeExtraIndex(free); }
inline int get_extra(PyObject* code, Py_ssize_t index, void** extra) { return _PyCode_GetExtra(code, index, extra); }
inline int set_extra(PyObject* code, Py_ssize_t index, void* extra) { return _PyCode_SetExtra(code, index, extra); }

inline bool observed(PyThreadState* t, PyCodeObject*) { return t->cframe->use_tracing != 0; }

inline bool enter_recursion(PyThreadState*) { return Py_EnterRecursiveCall("") == 0; }
inline void leave_recursion(PyThreadState*) { Py_LeaveRecursiveCall(); }

inline PyObject* finish(PyThreadState*, _PyInterpreterFrame*, PyObject* value, int) { return value; }
inline PyObject* abandon(PyThreadState*, _PyInterpreterFrame*) { return nullptr; }

inline void suspend(PyThreadState*, _PyInterpreterFrame* f, bool) {
  _PyFrame_GetGenerator(f)->gi_frame_state = FRAME_SUSPENDED;
}

}  // namespace vesta::capture::layout
