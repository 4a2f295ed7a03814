// What frames of CPython 3.12 and 3.13 have in common. Only the headers of these versions include this.
#pragma once

#include <internal/pycore_ceval.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>

#include <algorithm>

namespace vesta::capture::layout {

inline PyObject* function(const _PyInterpreterFrame* f) { return f->f_funcobj; }
// A frame that the evaluator makes each time C calls it; it runs no code of the program.
inline bool is_entry(const _PyInterpreterFrame* f) { return f->owner == FRAME_OWNED_BY_CSTACK; }

inline Py_ssize_t request_extra(freefunc free) { return PyUnstable_Eval_RequestCodeExtraIndex(free); }
inline int get_extra(PyObject* code, Py_ssize_t index, void** extra) {
  return PyUnstable_Code_GetExtra(code, index, extra);
}
inline int set_extra(PyObject* code, Py_ssize_t index, void* extra) {
  return PyUnstable_Code_SetExtra(code, index, extra);
}

// Whether a tool observes the code, if a tool was ever registered.
inline bool is_monitored(PyThreadState* t, PyCodeObject* code) {
  const auto any = [](const auto& monitors) {
    return std::ranges::any_of(monitors.tools, [](unsigned char tool) { return tool != 0; });
  };
  if (any(t->interp->monitors)) return true;  // events without an instruction, such as exceptions
  const _PyCoMonitoringData* data = code->_co_monitoring;
  if (data == nullptr) return false;
  // The active ones may be of an old version: RESUME removes them from the code.
  return any(data->local_monitors) || any(data->active_monitors) || t->tracing != 0;
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

// The generator's part of suspend(); the generator is in `state`.
inline void suspend_generator(PyThreadState* t, _PyInterpreterFrame* f, int state) {
  PyGenObject* generator = _PyFrame_GetGenerator(f);
  generator->gi_frame_state = static_cast<int8_t>(state);
  t->exc_info = generator->gi_exc_state.previous_item;
  generator->gi_exc_state.previous_item = nullptr;
  f->previous = nullptr;
}

}  // namespace vesta::capture::layout
