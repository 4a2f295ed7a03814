// Chooses the loops of one kernel on a CPU: the ranges, their order, the range that is the vector, and the size of a
// work item.
//
// The vector of a reduction runs along an Inner range (a row program) or along the last Parallel range, while the loops
// step over the Inner ones (a column program), whichever costs less. A kernel without a reduction has a vector along a
// Parallel range; short or transposed accesses get an Inner range, so that cache lines and work items are used whole.
#pragma once

#include "loops/dag.h"
#include "schedule/cpu_schedule.h"
#include "schedule/plan.h"

namespace vesta::schedule {

// The dag comes with the iteration dimensions of its group as ranges and is rewritten to the chosen ranges.
CpuSchedule choose_loops(loops::Dag& dag, const Options& options);

// Splits ranges where indices divide them (dims.cpp). Indices are then affine wherever sizes divide.
void split_ranges(loops::Dag& dag);
// Takes these ranges out of the dag and gives one in their place that runs over all their elements, the last one
// fastest. The caller puts it where it belongs.
loops::Range flatten_ranges(loops::Dag& dag, std::span<const loops::Range> which);
// Merges neighbouring ranges of one kind that every index walks through as one (dims.cpp).
void merge_ranges(loops::Dag& dag);

}  // namespace vesta::schedule
