// Runs a part of a frame as it is: by our own evaluator, which stops where the next part begins. What it calls runs in
// CPython.
#pragma once

#include <optional>
#include <vector>

#include "capture/python/frame/frame.h"

namespace vesta::capture {

struct UncompiledRun {
  // What an evaluation hook must return, if the frame has been left: it returned, raised, or CPython has run the rest.
  std::optional<PyObject*> left;
  int position = 0;     // otherwise: the instruction before which it stopped
  bool astray = false;  // it came to none of the ends, and CPython has run the rest
};

// From `position` to the first of the instructions at `ends`. The frame is not linked.
UncompiledRun run_uncompiled(PyThreadState* t, Frame* f, int position, const std::vector<int>& ends);

}  // namespace vesta::capture
