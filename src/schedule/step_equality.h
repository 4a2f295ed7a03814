// Steps that do the same with other buffers.
#pragma once

#include <functional>

#include "schedule/plan.h"

namespace vesta::schedule {

// Whether `b` does with its buffers what `a` does with its own. may_stand_for(x, y): whether buffer y of `b` may stand
// where buffer x stands in `a`; it is asked for each pair of buffers, until an answer or another difference decides.
bool equal_steps(const Step& a, const Step& b, const std::function<bool(int x, int y)>& may_stand_for);

// Calls f(buffer) for each buffer that the step writes.
void for_each_written(const Step& step, const std::function<void(int)>& f);

// The step with buffer(b) for each of its buffers b.
Step with_buffers(Step step, const std::function<int(int)>& buffer);

}  // namespace vesta::schedule
