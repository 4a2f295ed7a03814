// Calls that gain nothing from compiled code: guards and a graph of one call into ATen only add to eager's time. Such a
// callable runs as it is, until a call looks different or the next check is due. Only time depends on what is decided
// here: eager is right for every call.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/totals.h"

namespace vesta::capture {

// What one call had from compiled segments.
struct Gain {
  bool entered = false;   // a frame was captured
  bool passing = false;   // it compiled, or ran eager for a reason that may pass: look again at the next call
  int64_t kernels = 0;    // run
  int64_t operators = 0;  // of ATen, called by graphs
  int64_t frames = 0;     // of Python functions that graphs replaced
  int64_t segments = 0;   // that ran compiled
  bool compiled = false;  // a segment was traced and compiled
  bool for_now = false;   // a segment ran eager because of a mode, a stance or a compile in the background
  bool trains = false;    // a graph records gradients
  bool on_gpu = false;    // a graph runs on a GPU
  std::string fallback;   // why all calls run eager, if they do
  bool is_worth_it() const;
};

class StepAside {
 public:
  // Decides after a call with this gain. `fallbacks`: the counter of calls that run eager for gain.fallback, or
  // nullptr.
  void learn(const Gain& gain, PyObject* const* args, size_t count, PyObject* names, totals::Tally* fallbacks);
  void forget() { on_ = false; }
  // Whether a call with these arguments runs the original as it is. If so, the call is counted.
  bool wants(PyObject* const* args, size_t count, PyObject* names) {
    if (!on_ || --until_check_ <= 0 || !looks_the_same(args, count, names)) return false;
    ++calls;
    if (fallbacks_) ++*fallbacks_;
    return true;
  }
  totals::Tally calls{totals::of(totals::Count::Aside)};  // that ran the original

 private:
  // Facts of an argument that are cheap to compare. Two arguments that look the same may differ: eager is right for
  // both.
  struct Look {
    PyTypeObject* type;
    uint64_t facts;
    bool operator==(const Look&) const = default;
  };
  static Look look(PyObject* x);
  bool looks_the_same(PyObject* const* args, size_t count, PyObject* names) const;

  bool on_ = false;
  totals::Tally* fallbacks_ = nullptr;
  int calls_to_check_ = 0, until_check_ = 0;
  PyObject* names_ = nullptr;  // compared, never used
  std::vector<Look> looks_;
};

}  // namespace vesta::capture
