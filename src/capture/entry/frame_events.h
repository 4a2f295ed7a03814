// The events of a frame, or of a call from C++, that runs through its segments. Without events it reads one word.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/events.h"

namespace vesta::capture {

class FrameEvents {
 public:
  // `call`: the name of the compiled function. `frame`: makes that of the frame, if it is asked for.
  template <class F>
  FrameEvents(const std::string& call, F&& frame) {
    if (events::is_on()) scope_ = std::make_unique<Scope>(call, std::forward<F>(frame)());
  }

 private:
  struct Scope {
    Scope(const std::string& call, const std::string& frame);
    std::optional<events::Within> within_call;
    std::optional<events::Span> call;  // for the outermost frame of a thread
    std::optional<events::Within> within_frame;
    std::optional<events::Span> frame;
  };
  std::unique_ptr<Scope> scope_;
};

}  // namespace vesta::capture
