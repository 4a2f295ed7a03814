// One trace of a segment: the tracer runs the frame, a variant describes what it did, and everything is undone. The
// frame, the program's objects, torch's state and the handled exception are afterwards as they were.
#pragma once

#include <memory>
#include <vector>

#include "capture/python/segments/variant.h"

namespace vesta::capture {

struct TraceResult {
  std::shared_ptr<Variant> variant;  // without its compiled graph; nullptr: the trace gave no graph
  TracedGraph graph;
  double trace_ms = 0;
  // Without a variant: trace again and stop before this instruction of the root frame; -1: no trace can end earlier.
  int restart_at = -1;
  int frames = 0;                // of Python functions that the trace entered
  bool guessed = false;          // nobody knows whether restart_at is far enough back
  bool asked_compiling = false;  // the program asked whether it is being compiled
  bool raised = false;           // the program raised an exception and did not handle it
  BreakSite site;
  std::vector<Warning> warnings;
};

TraceResult trace_segment(PyThreadState* t, Frame* f, int position, const TraceSettings& settings);

}  // namespace vesta::capture
