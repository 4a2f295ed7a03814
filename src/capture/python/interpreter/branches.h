// What the two sides of a condition do, as their instructions say.
#pragma once

#include <optional>

#include "capture/python/frame/frame.h"

namespace vesta::capture {

// The instruction at `position` takes the truth of a value, and jumps by it. The truth with which the program goes on,
// if it only raises an exception with the other one; nullopt: both sides go on, or both raise.
std::optional<bool> truth_that_goes_on(PyCodeObject* code, int position);

}  // namespace vesta::capture
