// Calls that gain nothing from a compile: whatever else they cost then, guards and a graph of one call into ATen, is
// added to eager's time. Such a callable is run as it is, until a call looks different or the next check is due.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vesta::capture {

// What one call through compiled segments had from them.
struct Gain {
  bool entered = false;   // a frame was captured
  bool passing = false;   // it compiled, or ran eager for a reason that may pass: the next call tells more
  int64_t kernels = 0;    // run
  int64_t operators = 0;  // of ATen, called by graphs
  int64_t frames = 0;     // of Python functions that graphs stand for
  std::string fallback;   // why all calls run eager, if they do
  bool is_worth_it() const;
};

class StepAside {
 public:
  // After a call that `gain` tells of. `fallbacks`: counts calls that run eager for the gain's reason, if it has one.
  void learn(const Gain& gain, PyObject* const* args, size_t count, PyObject* names, int64_t* fallbacks);
  void forget() { on_ = false; }
  // Whether a call with these arguments runs the original as it is; it is counted then.
  bool wants(PyObject* const* args, size_t count, PyObject* names) {
    if (!on_ || --until_check_ <= 0 || !looks_the_same(args, count, names)) return false;
    ++calls;
    if (fallbacks_) ++*fallbacks_;
    return true;
  }
  int64_t calls = 0;  // that did

 private:
  // Of an argument, cheap to compare. Two that look the same may differ: eager is right for both.
  struct Look {
    PyTypeObject* type;
    uint64_t facts;
    bool operator==(const Look&) const = default;
  };
  static Look look(PyObject* x);
  bool looks_the_same(PyObject* const* args, size_t count, PyObject* names) const;

  bool on_ = false;
  int64_t* fallbacks_ = nullptr;
  int calls_to_check_ = 0, until_check_ = 0;
  PyObject* names_ = nullptr;  // compared, never used
  std::vector<Look> looks_;
};

}  // namespace vesta::capture
