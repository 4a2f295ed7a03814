// Orders a Dag into the stages of a Kernel.
//
// A value that depends on a reduction's result comes a stage later than that reduction. Values free of Inner variables
// go to the non-loop stages. A value of each inner element that several stages need is loaded or computed again where
// that is cheap, and kept in a scratch row otherwise.
#pragma once

#include "loops/dag.h"

namespace vesta::loops {

struct StageOptions {
  int vector = -1;  // index into the dag's ranges, of which the Parallel ones must come first
  int64_t block = 0;
  int64_t row_bytes = 256 << 10;  // scratch rows of one thread together take at most this, under the hints
};

struct Staged {
  std::shared_ptr<Kernel> kernel;  // in a context of its own
  std::vector<int> buffers;        // for each kernel buffer the id of the dag's buffer
  std::vector<Expr> offsets;       // and the part of its offsets that no loop changes, taken out of the kernel
  std::vector<Expr> sizes;         // the dag's expression for each kernel size symbol
};
Staged build_stages(const Dag& dag, const StageOptions& options);

}  // namespace vesta::loops
