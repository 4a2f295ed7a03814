// The CPU's schedule of one dag: every choice that makes a kernel of it, except the order of the ranges, which is the
// order in which choose_loops() leaves the dag. Other devices have schedules of their own and start from the same dag.
#pragma once

#include "schedule/stage.h"

namespace vesta::schedule {

struct CpuSchedule : Staging {
  int64_t vector_bytes = 16;      // decides lanes and tiles, once there are instructions (vectors.h)
  bool stream = false;            // buffers that are only written bypass the caches, where their alignment allows
  loops::RegisterTile registers;  // of a matrix product
  // These follow from the choices above.
  Expr items;         // over the graph's symbols
  Expr item_cost;     // nanoseconds
  int64_t bytes = 0;  // moved, under the hints
  double us = 0;
};

}  // namespace vesta::schedule
