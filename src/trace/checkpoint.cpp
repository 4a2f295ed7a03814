#include "trace/checkpoint.h"

#include "base/check.h"
#include "trace/recorder.h"

namespace vesta::trace {

void CheckpointRegions::begin(uint32_t first_value) { open_.push_back({.first = first_value}); }

bool CheckpointRegions::end(uint32_t end_value) {
  const Open region = open_.back();
  open_.pop_back();
  if (open_.empty() && region.first < end_value) ended_.push_back({region.first, end_value});
  return region.wrote_outside;
}

void CheckpointRegions::note_write(bool to_input, uint32_t value) {
  for (Open& region : open_) region.wrote_outside |= to_input || value < region.first;
}

CheckpointScope::CheckpointScope() : recorder_(Recorder::current()), draws_before_(recorder_ ? recorder_->draws : 0) {
  VESTA_CHECK(recorder_, "a checkpoint region begins outside a trace");
  recorder_->checkpoints.begin(recorder_->graph().value_count());
}

CheckpointScope::~CheckpointScope() {
  if (recorder_) end();
}

bool CheckpointScope::draws() const { return recorder_ && recorder_->draws > draws_before_; }

bool CheckpointScope::end() {
  const bool wrote = recorder_->checkpoints.end(recorder_->graph().value_count());
  recorder_ = nullptr;
  return wrote;
}

}  // namespace vesta::trace
