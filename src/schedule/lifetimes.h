// When the buffers of a plan are alive, and where they lie in the arena.
#pragma once

#include "schedule/plan.h"

namespace vesta::schedule {

// Sets the lifetimes of the plan's buffers, by its steps and outputs, and lays out its arena.
void lay_out(Plan& plan);

}  // namespace vesta::schedule
