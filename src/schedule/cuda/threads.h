// The schedule of a dag on a GPU: which threads compute which elements. Loads and stores of neighbouring threads are
// adjacent in memory where possible. Rows that are read more than once stay in registers.
#pragma once

#include "loops/dag.h"
#include "schedule/plan.h"
#include "schedule/stage.h"

namespace vesta::schedule {

constexpr int64_t kWarp = 32;
constexpr int64_t kMostEach = 8;         // elements of one access
constexpr int64_t kHeldBytes = 192;      // of all rows together in the registers of one thread, of 255 registers
constexpr int64_t kFullHeldBytes = 144;  // the same, where 1024 threads of one or two blocks have 64 registers each

// Whether neighbouring blocks of threads can share a row (Threads::parts).
bool shares_rows(const Target& target);
constexpr int64_t kMostParts = 8;  // as every GPU that has clusters allows

struct CudaSchedule : Staging {
  loops::Threads threads;
  loops::Threads once;  // if the kernel turns out to read each element of a row once
  loops::ProductTile product;
  int64_t tile_rows = 0, tile_columns = 0;  // of the last two Parallel ranges; 0: no tiles
  int64_t bytes = 0;                        // moved, under the hints
  double us = 0;                            // at the target's speed of memory
};

// Splits, orders and merges the ranges of the dag. Throws CannotFuse for dags that threads cannot run yet: loops whose
// passes must follow one another, scans of very long rows.
CudaSchedule choose_threads(loops::Dag& dag, const Options& options);

// Makes a pointwise kernel read the loads that are contiguous along the range before the last one through tiles of that
// size. An odd number of rows is the whole range, whose loads lie together (loops::Tile).
void read_through_tiles(loops::Kernel& kernel, int64_t rows, int64_t columns);

// Marks the kernel's buffers that are values, and those that certainly begin at a multiple of 16 bytes.
void describe_buffers(Staged& staged, const loops::Dag& dag);

}  // namespace vesta::schedule
