#include <Python.h>

#include "capture/python/segments/tier_turns.h"

namespace vesta::capture {

TimedTurn::~TimedTurn() {
  if (!gain_.compiled && !PyErr_Occurred()) turns_->took(tier_, 1e3 * watch_.milliseconds());
}

}  // namespace vesta::capture
