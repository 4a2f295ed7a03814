// Runs of a compiled graph without its program: their results, time and memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <vector>

namespace vesta::runtime {
class Executable;
}

namespace vesta::python {

// Throws InternalError if the graph does not take these inputs.
void checked_run(const runtime::Executable& executable, const std::vector<at::Tensor>& tensors,
                 const std::vector<int64_t>& integers, std::vector<c10::IValue>& outputs);

struct MeasuredRun {
  double least_us = 0;     // of the runs that were timed
  int64_t kept_bytes = 0;  // that a thread's first run leaves: packed weights and the arena
  int64_t most_bytes = 0;  // that are in use at one time during the second run, beside these
};

// Runs it, on a CPU, for about so many seconds, and at least five times. The bytes are those of two more runs in a
// thread of their own. The graph's exceptions pass through.
MeasuredRun measured_run(const runtime::Executable& executable, const std::vector<at::Tensor>& tensors,
                         const std::vector<int64_t>& integers, double seconds);

}  // namespace vesta::python
