#include "capture/entry/frame_events.h"

namespace vesta::capture {

FrameEvents::FrameEvents(const std::string& call, const std::string& frame) {
  events::Ids ids;
  ids.call = events::current().call;
  if (ids.call == 0) {
    ids.call = events::new_id();
    within_call_.emplace(ids);
    call_.emplace(events::Type::Call, call);
  }
  ids.frame = events::new_id();
  within_frame_.emplace(ids);
  frame_.emplace(events::Type::Frame, frame);
}

}  // namespace vesta::capture
