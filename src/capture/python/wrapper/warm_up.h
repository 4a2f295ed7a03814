// vesta.warm: a call that compiles what a call with its arguments needs, up to the first graph break, and ends before
// it runs any of it. The program's code is traced, and none of it is executed. vesta.estimate lets the compiled graph
// run, too, to measure it.
#pragma once

#include <Python.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "capture/python/frame/frame.h"
#include "vesta/capture_report.h"

namespace vesta::capture {

struct WarmUp {
  std::chrono::steady_clock::time_point end;  // until then it waits for compiles
  bool runs = false;                 // runs the compiled graph, drops its results, and does no writes of the segment
  bool ready = false;                // compiled code serves the call, or its compile goes on in the background
  bool is_new = false;               // the code was compiled for this call
  std::string eager;                 // without `ready`: why the call runs eager
  int64_t packed_bytes = 0;          // with `runs`: of the graph's packed and folded weights that are held now
  std::optional<CaptureBreak> stop;  // where the compiled code ends before the call does; the rest is not compiled yet
};

// False with an error set: the call raises it, or the callable is no Python code.
bool warm_up(PyObject* captured_function, PyObject* args, PyObject* keywords, WarmUp& out);

// Ends the frame of such a call before its instruction at `position`; what an evaluation hook must return.
PyObject* end_warm_up(PyThreadState* t, Frame* f, int position);

}  // namespace vesta::capture
