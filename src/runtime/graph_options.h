// Options for the use of CUDA graphs by the runs of a program.
#pragma once

#include <cstdint>

namespace vesta::runtime {

struct GraphOptions {
  bool on = true;
  int64_t copied_bytes =
      int64_t{1}
      << 20;  // an input of at most this size is copied rather than recorded for each address; -1: without bound
  int64_t most_bytes = -1;  // the recordings of the process may hold this much; -1: a quarter of the GPU's memory
};

}  // namespace vesta::runtime
