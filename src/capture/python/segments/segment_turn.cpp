#include "capture/python/segments/segment_turn.h"

#include <algorithm>
#include <utility>

namespace vesta::capture {
namespace {

// The first runs of a segment count, and one in so many of later ones: until the next measurement, a run that counts
// takes longer than one that does not.
constexpr int64_t kFirstRuns = 64, kOneIn = 16;

CallArguments first_locals(Frame* f) {
  const auto locals = static_cast<size_t>(code_of(f)->co_nlocals);
  return {slots(f), std::min(locals, CallSignature::kMostArguments), nullptr};
}

}  // namespace

SegmentTurn::SegmentTurn(std::shared_ptr<Segment> s, Frame* f, bool measures) : segment_(std::move(s)) {
  ProfitBySignature& profit = segment_->profit;
  if (!measures || profit.is_off()) return;
  const int64_t run = segment_->runs++;
  if (!profit.is_active() && run >= kFirstRuns && run % kOneIn != 0) return;
  const CallArguments locals = first_locals(f);
  keeps_ = profit.keeps_original(locals).has_value();
  if (keeps_) return;
  watches_ = true;
  turn_ = profit.begin(locals);
  if (is_measured()) watch_.emplace();
}

SegmentTurn::~SegmentTurn() {
  if (watches_) segment_->profit.drop(turn_);
}

void SegmentTurn::ran_compiled(const Variant& v, bool compiled) {
  if (!std::exchange(watches_, false)) return;
  Gain gain;
  gain.segments = 2;  // it is one of several: it may be slow, and is measured early
  gain.compiled = compiled;
  gain.trains = v.graph.trains;
  gain.on_gpu = v.graph.on_gpu;
  segment_->profit.learn(turn_, {}, gain, watch_ ? 1e3 * watch_->milliseconds() : 0);
}

void SegmentTurn::ran_uncompiled() {
  ++segment_->uncompiled;
  if (!std::exchange(watches_, false)) return;
  if (const auto slower = segment_->profit.learn_original(turn_, 1e3 * watch_->milliseconds()))
    segment_->slower = "it took " + text_of(*slower);
}

void SegmentTurn::went_astray() {
  segment_->profit.switch_off();
  segment_->slower.clear();
}

}  // namespace vesta::capture
