// The GIL hold: while a thread traces a frame, no other Python thread runs.
//
// Why. A trace executes the program's writes to lists, dicts and attributes for real and undoes them at its end.
// Another thread must never see them. The tracer itself never releases the GIL, but torch's Python functions do, around
// the work of each operator (PyEval_SaveThread and PyEval_RestoreThread). A traced operator has no work.
//
// How. install_gil_hold() makes libtorch_python call these two functions through us (relocations.h). Outside of a hold
// we call Python's own; within one we do nothing. No other library is redirected, and no other function but
// PyErr_WarnEx, which keeps the warnings of operators for the call that gives them (frame/warnings.h).
//
// Checked. After that, a torch function is called within a hold: it must have come through us in both directions.
//
// Off. VESTA_GIL_HOLD=0 leaves the two functions alone. Then, and where the redirection or its check fails (a read-only
// table, a torch that links Python statically), gil_is_held() is false, and one line in the log says so. The tracer
// then never runs an operator after a write to an object that existed before the trace: such an operator is a graph
// break (Break::OperatorAfterWrite). Results are the same; programs that write between operators have more graphs.
#pragma once

#include <string>

namespace vesta::capture {

// While one lives, torch's operators in this thread keep the GIL, if gil_is_held().
class GilHold {
 public:
  GilHold();
  ~GilHold();
  GilHold& operator=(GilHold&&) = delete;  // neither copied nor moved
};

// Before the first trace, with the GIL held and torch imported. Later calls do nothing.
void install_gil_hold();
// No other thread runs while a GilHold lives.
bool gil_is_held();
// Why not; empty: gil_is_held().
const std::string& why_gil_is_not_held();

}  // namespace vesta::capture
