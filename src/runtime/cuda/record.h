// Makes a recording: captures the steps of a program that may be captured.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "runtime/cuda/recording.h"
#include "runtime/resolver.h"

namespace vesta::runtime {

class Executable;

// A capture failed at a step. The step may run directly.
struct StepRefused {
  int step = 0;
  std::string why;
  bool keeps_memory = false;  // its operator allocated memory that only a library holds
};

struct RecordedProgram {
  const artifact::Artifact& artifact;
  const BoundProgram& program;
  std::span<const std::unique_ptr<Executable>> entries;
  std::span<const at::Tensor> prepacked;  // by buffer; empty: there are none
};

// Whether steps are calls of operators, which may need libraries' workspaces.
bool calls_operators(const artifact::Artifact& artifact);

// Captures twice: the first capture finds what extern calls allocate. Nothing runs on the GPU. `given`: what the plan
// says that runs give; it gets the memory of extern calls. The calling thread has entered `on`, its current stream, and
// has run the program before, so that libraries have made what they make once.
// Throws StepRefused, c10::OutOfMemoryError, machine::OutOfMemory, or InternalError.
std::unique_ptr<Recording> record(const RecordedProgram& what, Sizes& sizes, const CallInputs& in, GivenMemory& given,
                                  GraphPlan plan, const std::set<int>& copied, ReplayStream& on);

}  // namespace vesta::runtime
