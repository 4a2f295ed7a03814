#include "capture/python/segments/segment_turn.h"

#include <algorithm>
#include <utility>

#include "base/fault.h"

namespace vesta::capture {
namespace {

// The first runs of a segment count, and one in so many of later ones: until the next measurement, a run that counts
// takes longer than one that does not.
constexpr int64_t kFirstRuns = 64, kOneIn = 16;

}  // namespace

CallArguments first_locals(Frame* f) {
  const auto locals = static_cast<size_t>(code_of(f)->co_nlocals);
  return {slots(f), std::min(locals, CallSignature::kMostArguments), nullptr};
}

SegmentTurn::SegmentTurn(const std::shared_ptr<Segment>& s, Measured Segment::* part, Frame* f, bool counts,
                         bool measures)
    : frame_(f) {
  Measured& measured = (*s).*part;
  if (!counts || measured.profit.is_off()) return;
  keeps_ = part == &Segment::itself && fault::spoils("segment");
  const int64_t run = measured.runs++;
  if (!measured.profit.is_active() && run >= kFirstRuns && run % kOneIn != 0 && !keeps_) return;
  segment_ = s;
  part_ = &measured;
  if (keeps_) return;
  const CallArguments locals = first_locals(f);
  keeps_ = part_->profit.keeps_original(locals).has_value();
  if (keeps_ || !measures) return;
  turn_ = part_->profit.begin(locals);
  if (turn_.slower) {
    part_->slower = text_of(*turn_.slower);
    keeps_ = true;
    return;
  }
  watches_ = true;
  if (!is_measured()) return;
  first_node_ = next_node_number();
  watch_.emplace();
}

SegmentTurn::~SegmentTurn() {
  if (watches_) part_->profit.drop(turn_);
}

std::shared_ptr<const BackwardTime> SegmentTurn::backward(PyObject* result) const {
  if (result) return watch_backward({&result, 1}, true, first_node_);
  const int count = code_of(frame_)->co_nlocalsplus + depth_of(frame_);
  return watch_backward({slots(frame_), static_cast<size_t>(count)}, false, first_node_);
}

void SegmentTurn::ran_compiled(Gain gain, PyObject* result) {
  if (!std::exchange(watches_, false)) return;
  gain.segments = 2;  // it is one of several: it may be slow, and is measured early
  const double us = watch_ ? 1e3 * watch_->milliseconds() : 0;
  part_->profit.learn(turn_, {}, gain, us, watch_ ? backward(result) : nullptr);
}

void SegmentTurn::ran_uncompiled(PyObject* result) {
  ++part_->uncompiled;
  if (!std::exchange(watches_, false)) return;
  const double us = 1e3 * watch_->milliseconds();
  if (const auto slower = part_->profit.learn_original(turn_, us, backward(result))) part_->slower = text_of(*slower);
}

void SegmentTurn::went_astray() {
  part_->profit.forget();
  part_->profit.switch_off();
}

}  // namespace vesta::capture
