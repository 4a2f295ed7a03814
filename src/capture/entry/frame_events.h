// The events of a frame, or of a call from C++, that runs through its segments: made while events are recorded.
#pragma once

#include <optional>
#include <string>

#include "base/events.h"

namespace vesta::capture {

class FrameEvents {
 public:
  // `call`: the name of the compiled function, in case that this frame is the outermost one of its thread.
  FrameEvents(const std::string& call, const std::string& frame);

 private:
  std::optional<events::Within> within_call_;
  std::optional<events::Span> call_;
  std::optional<events::Within> within_frame_;
  std::optional<events::Span> frame_;
};

}  // namespace vesta::capture
