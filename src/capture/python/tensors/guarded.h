// C++ errors inside C API calls of ours.
#pragma once

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include "trace/recorder.h"

namespace vesta::capture {

// Calls f. A C++ failure becomes a Python error, and the trace remembers it as its reason; the result is empty then.
template <class F>
std::invoke_result_t<F> guarded(F&& f) {
  try {
    return f();
  } catch (pybind11::error_already_set& e) {
    e.restore();
  } catch (python_error& e) {
    e.restore();
  } catch (const std::exception& e) {
    trace::Recorder* r = trace::Recorder::current();
    if (r && !r->failure) r->failure = std::current_exception();
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
  return {};
}

}  // namespace vesta::capture
