// One call of a captured function, segment by segment: it finds or makes a variant whose guards hold, runs its graph,
// and leaves the frame as the segment leaves it. At a graph break it executes the instruction and goes on with the next
// segment. Whatever cannot be compiled runs in CPython: the result is eager's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/entry/compile_time.h"
#include "capture/python/segments/captured.h"
#include "capture/python/segments/run_variant.h"
#include "capture/python/segments/segment_turn.h"

namespace vesta::capture {

class SegmentedCall {
 public:
  // `warm_up`: if not nullptr, the call compiles its first segment and ends before it (warm_up.h).
  SegmentedCall(Captured& captured, PyThreadState* t, Frame* f, Gain* gain, WarmUp* warm_up)
      : captured_(captured), thread_(t), frame_(f), gain_(gain), warm_up_(warm_up) {}
  // Runs the frame to its end; returns what an evaluation hook must return.
  PyObject* run();

 private:
  // Functions that leave the frame for good return what run() is to return. The others return true to go on, or false
  // with the frame left and `left_` set.
  // `for_now`: the reason is none of the function's (Gain::for_now).
  PyObject* go_on_eagerly(const std::string& reason, bool for_now = false);
  PyObject* leave_to_python(const Reason& why);
  PyObject* leave_failed(Segment& s, const Ready& ready);
  bool left(PyObject* result);
  bool prepare(Segment& s, Ready& ready);
  bool add_variant(Segment& s, Ready& ready, CaptureRecompile& why, bool traced_before);
  // A variant that serves this frame, its graph run. `why`: if not nullptr, gets the difference to the last hit.
  bool find(Segment& s, Ready& ready, CaptureDifference* why);
  bool run_compiled(Segment& s, SegmentTurn& turn);
  // Runs the segment as it is, up to its break.
  bool run_uncompiled(const std::shared_ptr<Segment>& s, SegmentTurn& turn);
  bool execute_break();

  Captured& captured_;
  PyThreadState* const thread_;
  Frame* const frame_;
  Gain* const gain_;
  WarmUp* const warm_up_;
  CompileTime compile_time_;
  int position_ = 0;
  bool fresh_ = true;  // no instruction of the frame has been executed
  PyObject* left_ = nullptr;
  std::optional<TimedTurn> turn_;  // of the first variant whose compile goes on
  std::vector<Warning> lost_;      // given in traces that came to nothing, and not given since
  // The frame from the first segment on that runs uncompiled, to its end.
  std::optional<SegmentTurn> rest_;
  // Variants that were dropped: objects that they hold may run Python code as they die.
  std::vector<std::shared_ptr<Variant>> dropped_;
};

}  // namespace vesta::capture
