// The CPU's schedule of one dag: every choice that makes a kernel of it, but for the order of the ranges, which is that
// of the dag as choose_loops() leaves it. Another device has a schedule of its own and starts from the same dag.
#pragma once

#include "schedule/stage.h"

namespace vesta::schedule {

enum class LoopFamily : uint8_t { Pointwise, Transposed, Row, Column };

struct CpuSchedule : Staging {
  LoopFamily family = LoopFamily::Pointwise;
  int64_t vector_bytes = 16;  // from which lanes and tiles follow, once there are instructions (vectors.h)
  bool stream = false;        // what is only written goes past the caches, where its alignment allows
  // What follows.
  Expr items;         // over the graph's symbols
  Expr item_cost;     // nanoseconds
  int64_t bytes = 0;  // moved, under the hints
  double us = 0;
};

}  // namespace vesta::schedule
