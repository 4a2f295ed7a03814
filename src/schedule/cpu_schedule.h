// The CPU's schedule of one dag: every choice that makes a kernel of it, but for the order of the ranges, which is that
// of the dag as choose_loops() leaves it. Another device has a schedule of its own and starts from the same dag.
#pragma once

#include "base/expr.h"

namespace vesta::schedule {

enum class LoopFamily : uint8_t { Pointwise, Transposed, Row, Column };

struct CpuSchedule {
  LoopFamily family = LoopFamily::Pointwise;
  int vector = -1;                // the range along the lanes: index into the dag's; -1: scalar code
  int64_t vector_bytes = 16;      // from which lanes and tiles follow, once there are instructions (vectors.h)
  int64_t block = 0;              // elements of a parallel vector range in a work item
  int64_t row_bytes = 256 << 10;  // scratch rows of one thread together take at most this, under the hints
  bool stream = false;            // what is only written goes past the caches, where its alignment allows
  // What follows.
  Expr items;         // over the graph's symbols
  Expr item_cost;     // nanoseconds
  int64_t bytes = 0;  // moved, under the hints
  double us = 0;
};

}  // namespace vesta::schedule
