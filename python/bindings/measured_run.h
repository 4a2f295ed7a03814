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
  double least_us = 0;     // microseconds of the shortest run
  int64_t kept_bytes = 0;  // stay allocated after the first run in a thread: packed weights and the arena
  int64_t most_bytes = 0;  // the most that the second run has allocated at one time, without kept_bytes
};

// Runs the graph, which must be on a CPU, for about so many seconds and at least five times. Two more runs in another
// thread count the bytes. The graph's exceptions pass through.
MeasuredRun measured_run(const runtime::Executable& executable, const std::vector<at::Tensor>& tensors,
                         const std::vector<int64_t>& integers, double seconds);

}  // namespace vesta::python
