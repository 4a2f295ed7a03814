// Python functions that the trace runs: their code, defaults and closures.
//
// Guarantees: a function that existed before the trace is guarded once by its code, defaults and globals; the cells of
// its closure have sources. The trace looks into no code of PyTorch's compilers.
#pragma once

#include <unordered_set>

#include "capture/python/frame/frame.h"

namespace vesta::capture {

class Trace;

class FunctionModel {
 public:
  explicit FunctionModel(Trace& trace) : t_(trace) {}

  // The trace enters the frame of a Python function, called by C code or by the trace. False: the function's effects
  // are invisible to the program (PyTorch's own bookkeeping), and CPython is to run it.
  bool enter(Frame* f);
  int entered_frames() const { return entered_frames_; }
  // The code of a function at a source. Its globals are those of this function, whichever function comes later.
  void guard_code(PyObject* function, int source);
  // A function's code and defaults.
  void guard(PyObject* function);
  // The cells of a function's closure get their sources.
  void know_closure(PyObject* function);
  // Tuples and frozensets among the constants of code that runs are the same objects in each call.
  void note_code(PyCodeObject* code);
  void note_constant(PyObject* x);
  bool is_constant(PyObject* x) const { return constants_.contains(x); }

 private:
  Trace& t_;
  std::unordered_set<PyObject*> constants_, guarded_;
  std::unordered_set<PyCodeObject*> noted_;
  int entered_frames_ = 0;
};

}  // namespace vesta::capture
