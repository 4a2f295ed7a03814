// Time and memory of a compiled graph's run.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace vesta::runtime {
class Executable;
}

namespace vesta::python {

struct MeasuredRun {
  double least_us = 0;      // of the runs that were timed; with GPUs, until these are done
  int64_t kept_bytes = -1;  // of the CPU that a thread's first run leaves: packed weights and the arena; -1: on a GPU
  int64_t most_bytes = -1;  // that are in use at one time during the second run, beside these
};

// Runs it for about so many seconds, and at least five times; the bytes are those of two more runs in a thread of their
// own. The graph's exceptions pass through.
MeasuredRun measured_run(const runtime::Executable& executable, const std::vector<at::Tensor>& tensors,
                         const std::vector<int64_t>& integers, double seconds);

}  // namespace vesta::python
