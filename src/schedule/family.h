// Chooses the loops of one kernel on a CPU: the ranges, their order, the range that is the vector, and the size of a
// work item.
//
// Families: row programs (the vector runs along an Inner range), column programs (along the last Parallel range, the
// loops step over the Inner ones), pointwise (no reduction; short or transposed accesses get an Inner range so that
// cache lines and work items are used whole).
#pragma once

#include "loops/dag.h"
#include "schedule/cpu_schedule.h"
#include "schedule/plan.h"

namespace vesta::schedule {

// The dag comes with the iteration dimensions of its group as ranges and is rewritten to the chosen ranges.
CpuSchedule choose_loops(loops::Dag& dag, const Options& options);

// Splits ranges where indices divide them (dims.cpp). Indices are then affine wherever sizes divide.
void split_ranges(loops::Dag& dag);
// Merges neighbouring ranges of one kind that every index walks through as one (dims.cpp).
void merge_ranges(loops::Dag& dag);

}  // namespace vesta::schedule
