// The kernel of a dag whose ranges are ordered: orders its instructions into stages.
//
// A value that depends on a reduction's result is in a later stage than that reduction. Values without Inner variables
// go to the non-loop stages. A value of each inner element that several stages need is loaded or computed again where
// that is cheap, and kept in a scratch row otherwise.
#pragma once

#include "loops/dag.h"

namespace vesta::schedule {

struct Staged {
  std::shared_ptr<loops::Kernel> kernel;  // in a context of its own
  std::vector<int> buffers;               // for each kernel buffer the id of the dag's buffer
  std::vector<Expr> offsets;  // the part of each buffer's offset that no loop changes, taken out of the kernel
  std::vector<Expr> sizes;    // the dag's expression for each kernel size symbol
};
// The choices that decide what is kept in rows.
struct Staging {
  int vector = -1;                // the range along the lanes: index into the dag's; -1: scalar code
  int64_t block = 0;              // elements of a parallel vector range in a work item
  int64_t row_bytes = 256 << 10;  // the rows of one work item together take at most this, under the hints
  int keep_cost = 6;              // a value that costs this much (a load costs 2) is kept rather than computed again
  bool keep_narrow = false;       // what is loaded is kept, and the narrow value where one is widened
};

// The Parallel ranges of the dag must come first.
Staged build_stages(const loops::Dag& dag, const Staging& choice);

}  // namespace vesta::schedule
