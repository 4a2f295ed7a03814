// From a dag to a kernel, by the schedule of the target's device: a row for each device (kernel_schedule.cpp).
#pragma once

#include "loops/dag.h"
#include "schedule/plan.h"
#include "schedule/stage.h"

namespace vesta::schedule {

struct KernelSchedule {
  Staged staged;
  Expr items;      // over the graph's symbols, as what follows
  Expr item_cost;  // nanoseconds
  int64_t bytes = 0;
  double us = 0;
};

// Orders, splits and merges the ranges of the dag. Throws CannotFuse if the device's threads cannot run it.
KernelSchedule schedule_kernel(loops::Dag& dag, const Options& options);

}  // namespace vesta::schedule
