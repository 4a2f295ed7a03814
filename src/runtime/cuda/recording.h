// A program recorded as CUDA graphs, for one assignment of its symbols and one stream. Runs launch the graphs.
//
// Our kernels in a graph take the addresses of each run and the numbers in the CPU's memory: a launch updates the nodes
// for which one of these has changed. Results of extern calls in a graph are in the recording's own memory; outputs
// there are copied out. Addresses of inputs that extern calls in a graph read are part of the recording (fits()),
// except those of inputs that are copied first. The addresses of outputs that recur are part of it, too, if such calls
// make or read these outputs. Where outputs recur, the recording keeps no large memory: each run allocates it, and its
// addresses are part of the recording.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "runtime/bound_program.h"
#include "runtime/cuda/given_memory.h"
#include "runtime/cuda/graph_plan.h"
#include "runtime/cuda/last_calls.h"
#include "runtime/cuda/replay_stream.h"
#include "runtime/input_check.h"
#include "runtime/workspace.h"

namespace vesta::runtime {

// A node that launches one of our kernels with an argument that may change.
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
  std::vector<void*> arguments;  // for its buffers, as the node has them: addresses, or bits (device_launch.h)
  std::vector<Moving> moving;
};

// The launch of one graph. The capture sets the first two members, Recording::add and finish the rest.
struct RecordedGraph {
  std::unique_ptr<machine::DeviceGraph> graph;
  std::vector<KernelNode> kernels;

  // A buffer whose address may differ at each launch, with the arguments that hold it.
  struct Place {
    int buffer = 0;
    bool is_number = false;         // the argument is its bits, which are read at each launch
    const void* last = nullptr;     // its address in the last launch; nullptr before the first one
    size_t first_use = 0, end = 0;  // in uses
  };
  struct Use {
    size_t kernel = 0, argument = 0;
    int64_t offset = 0;  // bytes
  };
  std::vector<Place> places;
  std::vector<size_t> other_places;               // all but those of inputs that are addresses
  std::vector<std::vector<size_t>> input_places;  // the rest, by the artifact's input
  std::vector<Use> uses;
  std::vector<size_t> changed;  // kernels to update, while a launch looks for them
  void forget_places();         // the nodes' arguments are not known any more

  GraphPlan::Range steps;
  std::vector<int> allocate;        // buffers that get memory of their own in each run
  std::vector<int> release;         // tensors to release after the graph
  std::vector<int> release_inputs;  // inputs of the artifact that nothing reads after the graph
  bool ends_early = false;          // the early arena is released after it
  bool mutates = false;             // it contains the step BoundProgram::first_mutation()
};

class Recording {
 public:
  // Makes a recording without graphs (record.h adds them). `copied`: inputs that each run copies to the recording's
  // memory. The calling thread has entered `on`. Throws c10::OutOfMemoryError.
  Recording(const artifact::Artifact& artifact, std::shared_ptr<const Resolved> sizes, const CallInputs& in,
            std::span<const at::Tensor> prepacked, const GivenMemory& given, GraphPlan plan,
            const std::set<int>& copied, ReplayStream& on);
  // What each run of a recording with this plan allocates for the arenas, in bytes.
  static std::array<int64_t, kWorkMemories> given_bytes(const GraphPlan& plan, const ArenaLayout& layout);
  Recording(const Recording&) = delete;

  // Whether the addresses are those in the graphs. `other`, if given, gets the buffers with another address.
  // Outputs are not among them.
  bool fits(const CallInputs& in, std::span<const at::Tensor> prepacked, const GivenMemory& given,
            std::set<int>* other = nullptr) const;

  // Whether the calling thread may launch it (ReplayStream::is_shared).
  bool is_for_this_thread() const;
  // Copies those inputs of a run that are copied to the memory that its graphs read.
  void copy_inputs(const CallInputs& in) const;
  // Lends the arenas, and the tensors that some graphs make and others read. Those lie in what extern calls allocate,
  // which `given` must keep during the run where the recording does not.
  void lend_memory(Workspace& workspace, const GivenMemory& given) const;
  // The standing buffers that a run needs outside of the graphs. nullptr while the recording is being made: all of
  // them.
  const Standing* standing() const { return finished_ ? &standing_ : nullptr; }
  // Points the buffers of inputs that have moved since the graphs were launched to their memory: the launches of this
  // run update the nodes of these inputs alone.
  void find_moved(const CallInputs& in, std::span<void*> pointers);
  // All graphs have been launched since find_moved().
  void forget_moved();
  bool is_own(int buffer) const { return plan_.addresses[static_cast<size_t>(buffer)] == Address::Own; }
  bool is_given(int buffer) const { return plan_.addresses[static_cast<size_t>(buffer)] == Address::Given; }
  // The graph that begins with this step. nullptr: none.
  RecordedGraph* graph_at(int step) {
    const int at = graph_at_[static_cast<size_t>(step)];
    return at < 0 ? nullptr : &graphs_[static_cast<size_t>(at)];
  }
  // The steps from plan().last_calls on. nullptr: there are none.
  LastCalls* last_calls() const { return last_calls_.get(); }
  // Launches a graph with buffers at `pointers`.
  void launch(RecordedGraph& graph, std::span<void* const> pointers);

  ReplayStream& stream() const { return on_; }
  const Resolved& sizes() const { return *sizes_; }
  const GraphPlan& plan() const { return plan_; }
  const artifact::Artifact& artifact() const { return artifact_; }
  size_t graphs() const { return plan_.graphs.size(); }
  size_t nodes() const;
  int64_t bytes() const;  // of the memory that it keeps, including what the stream's recordings share
  int64_t given_bytes(WorkMemory which) const { return given_work_[static_cast<size_t>(which)].bytes; }
  // The bytes that another recording of the same calls would not need, because a later one on the stream needed more.
  int64_t replaced_bytes() const { return on_.replaced_bytes(memory_); }

  // While the recording is made: the inputs, with copies in place of those that are copied. Valid until
  // forget_inputs().
  CallInputs with_copies(const CallInputs& in);
  void forget_inputs();
  void add(int first_step, RecordedGraph graph);
  // Memory for what the extern calls in the graphs allocate; `given` may get it. Throws c10::OutOfMemoryError.
  char* make_blocks(int64_t bytes, GivenMemory& given);
  // Sets what a graph makes. Throws InternalError where it is in no memory of the recording.
  void set_own(int buffer, const at::Tensor& made, const GivenMemory& given);
  // Completes the recording, which runs from now on.
  void finish(const BoundProgram& program);

 private:
  struct Fixed {
    int buffer = 0;
    int input = -1;  // the artifact's input; -1: a prepacked constant
    const void* address = nullptr;
  };
  struct Block {
    const void* address = nullptr;
    int64_t bytes = 0;  // 0: runs do not give it
  };
  struct Copied {
    size_t input = 0;
    int buffer = 0;  // one of its buffers
    size_t bytes = 0;
    int64_t offset = 0;  // in the memory of copies, in bytes
  };
  void make_copies();
  void note_given(WorkMemory which, const GivenMemory& given);
  // The recording's own memory, or what the run gives.
  const c10::Storage& work(WorkMemory which, const GivenMemory& given) const;
  const artifact::Artifact& artifact_;
  const std::shared_ptr<const Resolved> sizes_;
  const GraphPlan plan_;
  ReplayStream& on_;
  const uint64_t owner_;               // the number of the only thread that may launch it; 0: every thread may
  ReplayStream::Memory memory_;        // null where runs give it
  std::vector<int> graph_at_;          // for each step: the index in graphs_ of the graph that begins with it, or -1
  std::vector<RecordedGraph> graphs_;  // in the order of steps
  std::unique_ptr<LastCalls> last_calls_;
  void update(RecordedGraph& graph, RecordedGraph::Place& place, std::span<void* const> pointers);

  std::vector<Fixed> fixed_;                     // addresses that the graphs contain
  std::vector<const void*> given_;               // the same of plan().given
  std::array<Block, kWorkMemories> given_work_;  // the same of what runs give to work in
  std::vector<const void*> found_;               // by input: its address when it was last looked for
  std::vector<std::vector<int>> input_buffers_;  // by input: its buffers in the graphs' places
  std::vector<int> moved_;                       // inputs whose nodes may have another address
  std::vector<bool> has_moved_;                  // by input: it is in moved_
  std::vector<std::optional<int64_t>> own_;      // by buffer: its offset in what calls allocate, in elements
  std::vector<int> lent_;                        // buffers of own_ that are lent
  Standing standing_;
  bool finished_ = false;
  std::vector<at::Tensor> copies_;  // by input; defined for inputs that are copied
  std::vector<Copied> copied_;
  std::vector<at::Tensor> inputs_;  // the result of with_copies()
  Addresses addresses_;
};

}  // namespace vesta::runtime
