// Steps of an artifact tied to this process, with what each step must allocate before it and may drop after it.
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
  const artifact::Launch* launch = nullptr;   // one of the five is set
  std::shared_ptr<const machine::Code> code;  // null unless `launch` is set
  machine::KernelFn entry = nullptr;
  std::shared_ptr<const machine::DeviceKernel> kernel;  // set if `launch` is for a GPU; then there is no `code`
  const artifact::Extern* call = nullptr;
  const artifact::Call* region = nullptr;
  const artifact::Assert* assertion = nullptr;
  const artifact::CopyBack* copy = nullptr;
  bool copied = false;  // of a copy: a kernel has written the input, nothing is left to copy
  std::optional<c10::OperatorHandle> handle;
  int storage_offset = -1;          // the argument that counts from the begin of args[0]'s storage, if any
  IntoFn into = nullptr;            // set if the one result is allocated before the call
  std::vector<int> allocate;        // buffers to make before this step
  std::vector<int> release;         // tensors to drop after it
  std::vector<int> release_inputs;  // artifact inputs not read after it
};

// Buffers that have memory before the first step.
struct Standing {
  std::vector<int> arena;
  std::vector<std::pair<int, int>> inputs;  // and the artifact's input that each is
  std::vector<int> derived;
};

class BoundProgram {
 public:
  // `owned`: every buffer but inputs is a tensor of its own (derived steps); otherwise Arena buffers are in the arena.
  BoundProgram(const artifact::Artifact& artifact, const std::vector<artifact::Step>& steps, bool owned);

  const std::vector<BoundStep>& steps() const { return steps_; }
  std::vector<const c10::FunctionSchema*> schemas() const;  // per step; nullptr unless a call
  bool owned() const { return owned_; }
  // By buffer: whether a kernel of the artifact takes its address.
  bool is_for_kernels(int buffer) const { return for_kernels_[static_cast<size_t>(buffer)]; }
  size_t first_copy() const { return first_copy_; }  // steps from here on are copies to inputs
  // The first step that writes over an input whose elements a step before it, or it itself, reads: from here on a
  // program begun anew would not give the same. No step after it allocates but what has a size that a step from here on
  // defines. first_copy() if there is none.
  size_t first_mutation() const { return first_mutation_; }
  size_t max_launch_args() const { return max_launch_args_; }
  // Whether a step may draw from the default generator.
  bool draws() const { return draws_; }
  // Results that no step makes but an output shows (an uninitialised or empty one).
  const std::vector<int>& never_written() const { return never_written_; }
  // Inputs that a kernel has written when the copies run: nothing is left to copy.
  const std::vector<int>& written_inputs() const { return written_inputs_; }
  // Of derived steps: what only later ones read (an unpacked weight), made by calls that write where they are told.
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
