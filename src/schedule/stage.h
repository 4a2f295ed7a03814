// The kernel of a dag under the CPU's schedule: the dag ordered into stages.
//
// A value that depends on a reduction's result comes a stage later than that reduction. Values free of Inner variables
// go to the non-loop stages. A value of each inner element that several stages need is loaded or computed again where
// that is cheap, and kept in a scratch row otherwise.
#pragma once

#include "loops/dag.h"
#include "schedule/cpu_schedule.h"

namespace vesta::schedule {

struct Staged {
  std::shared_ptr<loops::Kernel> kernel;  // in a context of its own
  std::vector<int> buffers;               // for each kernel buffer the id of the dag's buffer
  std::vector<Expr> offsets;              // and the part of its offsets that no loop changes, taken out of the kernel
  std::vector<Expr> sizes;                // the dag's expression for each kernel size symbol
};
// The Parallel ranges of the dag must come first.
Staged build_stages(const loops::Dag& dag, const CpuSchedule& choice);

}  // namespace vesta::schedule
