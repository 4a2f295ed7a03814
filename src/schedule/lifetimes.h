// When the buffers of a plan are alive, and where they lie in the arena.
#pragma once

#include "schedule/plan.h"

namespace vesta::schedule {

// Sets the lifetimes of the plan's buffers, by its steps and outputs, and lays out its arena.
void lay_out(Plan& plan);
// Takes large buffers out of the arena: each gets a tensor before its first step, which is freed after its last one.
// For the halves of a training step on a CPU. Their memory is highest where the backward half begins, and from there on
// it frees the saved tensors step by step, while the arena is there from the first step to the last.
void allocate_step_by_step(Plan& plan);

}  // namespace vesta::schedule
