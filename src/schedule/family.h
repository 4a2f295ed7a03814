// The loops of one kernel: which ranges, in which order, which of them is the vector, how large a work item is.
//
// Families: row programs (the vector runs along an Inner range), column programs (along the last Parallel range, the
// loops step over the Inner ones), pointwise (no reduction; short or transposed accesses get an Inner range so that
// cache lines and work items are used whole).
#pragma once

#include "loops/dag.h"
#include "schedule/cpu_schedule.h"
#include "schedule/plan.h"

namespace vesta::schedule {

// The dag's ranges are those of the group's runs; it is rewritten to the chosen ones.
CpuSchedule choose_loops(loops::Dag& dag, const Options& options);

// Splits runs where indices divide them (dims.cpp): afterwards indices are affine wherever sizes divide.
void split_ranges(loops::Dag& dag);
// Merges neighbours of one kind that every index walks through as one (dims.cpp).
void merge_ranges(loops::Dag& dag);

}  // namespace vesta::schedule
