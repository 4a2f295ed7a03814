// One run of a part of a frame, as its measurements see it (wrapper/profit.h). The part is a segment of a call with
// several, or the rest of the frame from a segment on. Its compiled and uncompiled runs take turns. If the uncompiled
// ones are faster, the part runs uncompiled until the next measurement. Runs are measured apart by the signature of the
// frame's first local variables. The GIL guards every member.
#pragma once

#include <memory>
#include <optional>

#include "base/stopwatch.h"
#include "capture/python/segments/captured.h"

namespace vesta::capture {

// As many local variables as a signature has; of a frame that begins, its arguments.
CallArguments first_locals(Frame* f);

class SegmentTurn {
 public:
  // As the part begins in a frame. `part`: &Segment::itself or &Segment::rest. `counts`: it has been compiled, and is
  // not all that the call runs, whose times are measured as a whole. `measures`: this run may be part of a measurement;
  // if not, it does what earlier ones have shown. For tests: every such run of a segment is an uncompiled one while the
  // stage "segment" is spoiled (base/fault.h).
  SegmentTurn(const std::shared_ptr<Segment>& s, Measured Segment::* part, Frame* f, bool counts, bool measures);
  // A run that nothing was said about tells nothing.
  ~SegmentTurn();
  SegmentTurn(const SegmentTurn&) = delete;

  bool is_uncompiled() const { return keeps_ || turn_.run == Run::Original; }
  // Whether the run is part of a measurement: the call's own time then tells nothing.
  bool is_measured() const { return turn_.run != Run::NotTimed; }
  // The part has run. `gain`: what it had from compiled segments. `result`: what the frame has returned; nullptr: it is
  // at the end of the part.
  void ran_compiled(Gain gain, PyObject* result);
  void ran_uncompiled(PyObject* result);
  // An uncompiled run did not come to an end of the segment that is known: it runs compiled from now on.
  void went_astray();

 private:
  // The backward pass of what the part has computed since the turn began.
  std::shared_ptr<const BackwardTime> backward(PyObject* result) const;

  std::shared_ptr<Segment> segment_;  // nullptr: the run does not count
  Measured* part_ = nullptr;
  ProfitBySignature::Turn turn_;
  bool watches_ = false;  // the run counts
  bool keeps_ = false;
  Frame* const frame_;
  uint64_t first_node_ = 0;  // that autograd made in the turn
  std::optional<Stopwatch> watch_;
};

}  // namespace vesta::capture
