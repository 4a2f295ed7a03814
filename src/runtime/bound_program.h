// Steps of an artifact bound to this process, with the memory that each step needs allocated before it and releases
// after it. Binding happens once; a BoundProgram is not changed by runs.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <utility>
#include <vector>

#include "artifact/artifact.h"
#include "machine/load.h"
#include "runtime/extern_call.h"
#include "runtime/ops/rows.h"

namespace vesta::runtime {

struct BoundStep {
  const artifact::Launch* launch = nullptr;   // exactly one of the five pointers is set
  std::shared_ptr<const machine::Code> code;  // null unless `launch` is set
  machine::KernelFn entry = nullptr;
  std::shared_ptr<const machine::DeviceKernel> kernel;  // set if `launch` is for a GPU; then there is no `code`
  const artifact::Extern* call = nullptr;
  const artifact::Call* region = nullptr;
  const artifact::Assert* assertion = nullptr;
  const artifact::CopyBack* copy = nullptr;
  bool copied = false;  // of a copy: a kernel has written the input already, so nothing is copied
  std::optional<c10::OperatorHandle> handle;
  int storage_offset = -1;          // the argument that counts from the start of args[0]'s storage, if any
  IntoFn into = nullptr;            // set if the only result is allocated before the call
  std::vector<int> allocate;        // buffers to allocate before this step
  std::vector<int> release;         // tensors to release after it
  std::vector<int> release_inputs;  // inputs of the artifact that no later step reads
};

// Buffers that have memory before the first step.
struct Standing {
  std::vector<int> arena;
  std::vector<std::pair<int, int>> inputs;  // each with the artifact's input that it is
  std::vector<int> prepacked;
};

class BoundProgram {
 public:
  // `owned`: every buffer but the inputs is a tensor of its own (prepacked steps). Otherwise Arena buffers are in the
  // arena.
  BoundProgram(const artifact::Artifact& artifact, const std::vector<artifact::Step>& steps, bool owned);

  const std::vector<BoundStep>& steps() const { return steps_; }
  std::vector<const c10::FunctionSchema*> schemas() const;  // per step; nullptr unless it is a call
  bool owned() const { return owned_; }
  // By buffer: whether a kernel of the artifact takes its address.
  bool is_for_kernels(int buffer) const { return for_kernels_[static_cast<size_t>(buffer)]; }
  size_t first_copy() const { return first_copy_; }  // this step and all later ones are copies to inputs
  // The first step that overwrites an input whose elements it or an earlier step reads. After it starts, the program
  // run again would give other results. No later step allocates, except memory whose size this step or a later one
  // defines. first_copy() if there is no such step.
  size_t first_mutation() const { return first_mutation_; }
  size_t max_launch_args() const { return max_launch_args_; }
  // Whether a step may draw from the default generator.
  bool draws() const { return draws_; }
  // Results that an output shows but no step makes (uninitialized or empty ones).
  const std::vector<int>& never_written() const { return never_written_; }
  // Inputs that a kernel has already written when the copies run.
  const std::vector<int>& written_inputs() const { return written_inputs_; }
  // For prepacked steps: buffers that only later prepacked steps read (an unpacked weight) and that direct calls fill.
  const std::vector<int>& passing() const { return passing_; }
  const Standing& standing() const { return standing_; }

 private:
  void find_first_mutation(const artifact::Artifact& artifact, const std::vector<artifact::Step>& steps);
  std::vector<BoundStep> steps_;
  std::vector<int> never_written_;
  std::vector<bool> for_kernels_;
  Standing standing_;
  std::vector<int> passing_;
  std::vector<int> written_inputs_;
  size_t max_launch_args_ = 0;
  size_t first_copy_ = 0;
  size_t first_mutation_ = 0;
  bool owned_ = false;
  bool draws_ = false;
};

}  // namespace vesta::runtime
