// Ways out of a graph break, for people.
#pragma once

#include <string>
#include <string_view>

namespace vesta::capture {

// One sentence; empty if none is known. `reason`: as CaptureBreak has it.
std::string hint_for(std::string_view reason);

}  // namespace vesta::capture
