// Where a trace is, and whether it has ended.
//
// Guarantees: the first graph break is the one that is reported, with the Python line and the stack of calls at which
// it happened; after it every room of the trace answers with an error. Nothing here reads or writes objects of the
// program.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "capture/python/breaks/breaks.h"
#include "capture/python/frame/frame.h"
#include "vesta/capture_report.h"

namespace vesta::capture {

class Trace;

struct BreakSite {
  Reason reason;
  UserLine where;               // the innermost Python line
  std::vector<UserLine> stack;  // the calls from the root frame to `where`, outermost first
  bool needs_gradients = false;
  int64_t operators = 0;     // recorded when the trace ended
  bool wants_value = false;  // of a symbolic scalar: the next trace takes the value as a constant
  std::string module;        // that the program imports: one of torch's own, loaded before the next trace
};

// The line of an instruction, or the first line of the function where the instruction has none.
UserLine user_line(PyCodeObject* code, int position);

class Progress {
 public:
  explicit Progress(Trace& trace) : t_(trace) {}

  // Called before each instruction of each frame. False: the root frame has reached TraceSettings::stop_at.
  bool begin_instruction(Frame* f, int position);

  // Ends the trace; always nullptr, with a Python error set. Later reasons are dropped.
  PyObject* graph_break(Reason why);
  // Ends the trace without a reason: nothing more is recorded.
  void end() { ended_ = true; }
  bool ended() const { return ended_; }
  // nullptr with the error that a trace that has ended leaves.
  static PyObject* stopped();
  // The next trace needs the value of a symbolic scalar.
  void want_value(bool wanted) { site_.wants_value = wanted; }
  // The program imports a module that is not loaded. What the import of a module of torch does is no effect of the
  // program.
  void want_module(std::string_view name);
  const BreakSite& site() const { return site_; }

  // The instruction at work. A function that the trace calls leaves it, and its caller puts it back.
  struct Place {
    Frame* frame = nullptr;
    int position = 0;
  };
  const Place& place() const { return place_; }
  void set_place(Place p) { place_ = p; }
  // "model.py:17": the innermost line of the program's own code, or of installed code where there is no such line.
  std::string line() const;

  // Instructions of the root frame that have begun.
  int root_count() const { return root_count_; }
  // The count of the root frame's instruction that raised the exception which is being handled, or -1.
  int raised_at() const { return raised_at_; }

 private:
  void note_size_guards();
  void check_bounds();  // on the trace's time and memory

  Trace& t_;
  Place place_;
  PyCodeObject* code_ = nullptr;  // of the instruction at work; its frame may be gone
  size_t size_guards_ = 0;        // guards on symbolic sizes when the instruction began
  int64_t instructions_ = 0;
  int root_count_ = 0, raised_at_ = -1;
  bool ended_ = false;
  BreakSite site_;
};

}  // namespace vesta::capture
