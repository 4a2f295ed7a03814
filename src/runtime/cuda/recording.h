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

// What a recording's launch does for one graph. The first two are made by the capture, the rest by Recording::add and
// finish.
struct RecordedGraph {
  std::unique_ptr<machine::DeviceGraph> graph;
  std::vector<KernelNode> kernels;

  // A buffer whose address may be another at each launch, and the arguments that it is.
  struct Place {
    int buffer = 0;
    bool is_number = false;         // its bits are the argument: they are read at each launch
    const void* last = nullptr;     // the address in the last launch; before the first one that of no memory
    size_t first_use = 0, end = 0;  // in uses
  };
  struct Use {
    size_t kernel = 0, argument = 0;
    int64_t offset = 0;  // bytes
  };
  std::vector<Place> places;
  std::vector<Use> uses;
  std::vector<size_t> changed;  // kernels, while a launch finds them
  void forget_places();         // the next launch changes every node with such arguments

  GraphPlan::Range steps;
  std::vector<int> allocate;        // buffers that are memory of their own in each run
  std::vector<int> release;         // tensors to drop after it
  std::vector<int> release_inputs;  // of the artifact, not read after it
  bool ends_early = false;          // the early arena ends with it
  bool mutates = false;             // BoundProgram::first_mutation() is a step of it
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

  // Copies the inputs of a run that are copied to where its graphs read them.
  void copy_inputs(const CallInputs& in) const;
  // The arena, and those tensors that the graphs make and others read.
  void lend_memory(Workspace& workspace) const;
  // Of those that a run needs, apart from what is in the graphs; nullptr while it is made: all.
  const Standing* standing() const { return finished_ ? &standing_ : nullptr; }
  bool is_own(int buffer) const { return plan_.addresses[static_cast<size_t>(buffer)] == Address::Own; }
  // The graph that begins with this step; nullptr: none.
  RecordedGraph* graph_at(int step) {
    const int at = graph_at_[static_cast<size_t>(step)];
    return at < 0 ? nullptr : &graphs_[static_cast<size_t>(at)];
  }
  // Where buffers lie as `pointers` say.
  void launch(RecordedGraph& graph, std::span<void* const> pointers);

  ReplayStream& stream() const { return on_; }
  const Resolved& sizes() const { return *sizes_; }
  const GraphPlan& plan() const { return plan_; }
  const artifact::Artifact& artifact() const { return artifact_; }
  size_t graphs() const { return plan_.graphs.size(); }
  size_t nodes() const;
  int64_t bytes() const;  // of memory, the shared arena's too

  // While it is made:
  // The inputs with copies in the place of those that are copied. Valid until forget_inputs().
  CallInputs with_copies(const CallInputs& in);
  void forget_inputs();
  void add(int first_step, RecordedGraph graph);
  void set_blocks(std::unique_ptr<RecordedMemory> blocks) { blocks_ = std::move(blocks); }
  // What a graph makes. Throws InternalError where it lies in no memory of the recording.
  void set_own(int buffer, const at::Tensor& made);
  // When all is there: from now on it runs.
  void finish(const BoundProgram& program);

 private:
  struct Fixed {
    int buffer = 0;
    int input = -1;  // that it is; -1: a derived weight
    const void* address = nullptr;
  };
  struct Copied {
    size_t input = 0;
    size_t bytes = 0;
  };
  const artifact::Artifact& artifact_;
  const std::shared_ptr<const Resolved> sizes_;
  const GraphPlan plan_;
  ReplayStream& on_;
  std::shared_ptr<RecordedMemory> arena_, early_;
  std::unique_ptr<RecordedMemory> blocks_;  // of what extern calls in the graphs allocate
  std::vector<int> graph_at_;               // by step, its place in graphs_ if one begins there, or -1
  std::vector<RecordedGraph> graphs_;       // in the order of steps
  std::vector<Fixed> fixed_;                // addresses in the graphs
  std::vector<at::Tensor> own_;             // by buffer
  std::vector<int> lent_;                   // of own_
  Standing standing_;
  bool finished_ = false;
  std::vector<at::Tensor> copies_;  // by input; defined where it is copied
  std::vector<Copied> copied_;
  std::vector<at::Tensor> inputs_;  // with_copies()
  Addresses addresses_;
};

}  // namespace vesta::runtime
