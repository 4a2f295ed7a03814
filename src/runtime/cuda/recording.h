// A program recorded into CUDA graphs, for one assignment of its symbols and one stream. Runs of it launch them.
//
// Kernels of ours in a graph take the addresses of each run, and the numbers that lie in the CPU's memory: their nodes
// are changed where one of these is another than before. What extern calls in a graph make lies in the recording's own
// memory; outputs there are copied out. Addresses of inputs that extern calls in a graph read are part of the recording
// (fits()), but for those that are copied first.
#pragma once

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "runtime/bound_program.h"
#include "runtime/cuda/graph_plan.h"
#include "runtime/cuda/replay_stream.h"
#include "runtime/input_check.h"
#include "runtime/workspace.h"

namespace vesta::runtime {

// A node that launches a kernel of ours with an argument that may change.
struct KernelNode {
  struct Moving {
    size_t argument = 0;
    int buffer = 0;
    int64_t offset = 0;  // bytes
  };
  machine::GraphNode node = nullptr;
  const machine::DeviceKernel* kernel = nullptr;
  const ResolvedLaunch* launch = nullptr;
  machine::LaunchShape shape{};
  std::vector<void*> arguments;  // for its buffers, as the node has them: addresses, and bits (device_launch.h)
  std::vector<Moving> moving;
};

struct RecordedGraph {
  std::unique_ptr<machine::DeviceGraph> graph;
  std::vector<KernelNode> kernels;
};

class Recording {
 public:
  // Without graphs yet (record.h). `copied`: inputs that each run copies to the recording's memory. The calling thread
  // has entered `on`. Throws c10::OutOfMemoryError.
  Recording(const artifact::Artifact& artifact, std::shared_ptr<const Resolved> sizes, const CallInputs& in,
            std::span<const at::Tensor> derived, GraphPlan plan, const std::set<int>& copied, ReplayStream& on);
  Recording(const Recording&) = delete;

  // Whether the addresses are those that the graphs hold. `other`, if given: the buffers with another.
  bool fits(const CallInputs& in, std::span<const at::Tensor> derived, std::set<int>* other = nullptr) const;

  // The inputs of a run, with copies in the place of those that are copied: done now, if `copy`. Valid until
  // forget_inputs(), which the run's end calls.
  CallInputs with_copies(const CallInputs& in, bool copy);
  void forget_inputs();
  // The arena, and the tensors that the graphs make.
  void lend_memory(Workspace& workspace) const;
  bool is_own(int buffer) const { return plan_.addresses[static_cast<size_t>(buffer)] == Address::Own; }
  // If a graph begins with this step: the step after it. Otherwise `step`.
  int end_of(int step) const { return ends_[static_cast<size_t>(step)]; }
  // That graph, where buffers lie as `pointers` say.
  void launch(int step, std::span<void* const> pointers);

  ReplayStream& stream() const { return on_; }
  const Resolved& sizes() const { return *sizes_; }
  const GraphPlan& plan() const { return plan_; }
  const artifact::Artifact& artifact() const { return artifact_; }
  size_t graphs() const { return plan_.graphs.size(); }
  size_t nodes() const;
  int64_t bytes() const;  // of memory, the shared arena's too

  // While it is made:
  void add(int first_step, RecordedGraph graph);
  void set_blocks(std::unique_ptr<RecordedMemory> blocks) { blocks_ = std::move(blocks); }
  // What a graph makes. Throws InternalError where it lies in no memory of the recording.
  void set_own(int buffer, const at::Tensor& made);

 private:
  const artifact::Artifact& artifact_;
  const std::shared_ptr<const Resolved> sizes_;
  const GraphPlan plan_;
  ReplayStream& on_;
  std::shared_ptr<RecordedMemory> arena_, early_;
  std::unique_ptr<RecordedMemory> blocks_;          // of what extern calls in the graphs allocate
  std::vector<int> ends_;                           // by step
  std::vector<RecordedGraph> graphs_;               // by first step
  std::vector<std::pair<int, const void*>> fixed_;  // buffers, and their addresses in the graphs
  std::vector<at::Tensor> own_;                     // by buffer
  std::vector<at::Tensor> copies_;                  // by input; defined where it is copied
  std::vector<at::Tensor> inputs_;                  // of a run
};

}  // namespace vesta::runtime
