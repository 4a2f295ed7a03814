// One call through a variant: its guards are checked and its graph runs; then the frame is left as the trace left it.
// Between the two steps nothing that the program can see has changed.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/python/segments/variant.h"

namespace vesta::capture {

// A variant whose guards held, with what its graph gave.
struct Ready {
  // If set, nothing is run: guards and inputs are checked, after the variant's compile has ended or this time is up.
  std::optional<std::chrono::steady_clock::time_point> checked_at;
  std::shared_ptr<Variant> variant;
  std::vector<Object> outputs;
  std::string failed;             // if set: why the graph could not run; nothing was written
  bool refused = false;           // Vesta itself refused to run it, and always will
  bool pending = false;           // its compile goes on in the background
  bool early = false;             // its calls into ATen ran meanwhile (CompiledGraph::early)
  bool not_worth_it = false;      // of these: a prediction says that eager takes less time
  bool not_compiled = false;      // its compile, which ended in the background, failed
  std::vector<Warning> warnings;  // of this run
  std::vector<Object> held;       // the objects of the epilogue's sources, alive until the frame is left
};

// False: the variant does not serve this frame, the graph failed (ready.failed), or a Python error is set. `why`: if
// not nullptr, gets the difference, which takes longer to describe than to find.
bool run_variant(Variant& v, Frame* f, Ready& ready, CaptureDifference* why);

// Rebuilds what the frame holds at the end of the segment, then does the segment's writes. `result`: of a return, new.
// False with an error set.
bool leave_segment(Frame* f, const Ready& ready, PyObject** result);

}  // namespace vesta::capture
