// How the runs of a program use CUDA graphs.
#pragma once

#include <cstdint>

namespace vesta::runtime {

struct GraphOptions {
  bool on = true;
  int64_t copied_bytes = int64_t{1} << 20;  // of an input, that are copied rather than recorded for; -1: without bound
  int64_t most_bytes = -1;  // that recordings of the process may hold; -1: a quarter of the GPU's memory
};

}  // namespace vesta::runtime
