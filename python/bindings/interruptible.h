// Waits of vesta.wait(), which Ctrl-C and other signals interrupt.
#pragma once

#include <Python.h>
#include <pybind11/pybind11.h>

#include <chrono>

#include "base/interrupt.h"
#include "base/stopwatch.h"

namespace vesta::python {

// What `wait` says of a time so many seconds from now (negative: never). Where a signal ends it early, Python's handler
// runs, and the wait goes on if that raises nothing. Requires the GIL.
template <class Wait>
bool wait_or_raise(double seconds, Wait wait) {
  const std::chrono::steady_clock::time_point end = end_after(seconds);
  while (!wait(end)) {
    if (!interrupt::asked()) return false;
    if (PyErr_CheckSignals() < 0) throw pybind11::error_already_set();
  }
  return true;
}

}  // namespace vesta::python
