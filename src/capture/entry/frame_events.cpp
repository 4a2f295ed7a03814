#include "capture/entry/frame_events.h"

namespace vesta::capture {

FrameEvents::Scope::Scope(const std::string& call_name, const std::string& frame_name) {
  events::Ids ids;
  ids.call = events::current().call;
  if (ids.call == 0) {
    ids.call = events::new_id();
    within_call.emplace(ids);
    call.emplace(events::Type::Call, call_name);
  }
  ids.frame = events::new_id();
  within_frame.emplace(ids);
  frame.emplace(events::Type::Frame, frame_name);
}

}  // namespace vesta::capture
