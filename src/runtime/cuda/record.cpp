#include "runtime/cuda/record.h"

#include <c10/core/StreamGuard.h>

#include <algorithm>

#include "artifact/uses.h"
#include "base/check.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/memory_plan.h"
#include "base/stopwatch.h"
#include "machine/cuda/driver.h"
#include "runtime/cuda/allocation_log.h"
#include "runtime/cuda/torch_cuda.h"
#include "runtime/device_launch.h"
#include "runtime/runner.h"

namespace vesta::runtime {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

class Recorder {
 public:
  Recorder(const RecordedProgram& what, Sizes& sizes, const CallInputs& in, GivenMemory& given, Recording& recording)
      : what_(what),
        sizes_(sizes),
        given_(given),
        in_(recording.with_copies(in)),
        recording_(recording),
        capture_(recording.stream().capture_stream(calls_operators(what.artifact))),
        prepared_ms_(watch_.milliseconds()) {}

  void run() {
    fault::reached("record");
    const TorchCuda& torch = *torch_cuda();
    void* const user = recording_.stream().stream();
    const auto log =
        std::make_shared<AllocationLog>([&torch, user](size_t bytes) { return torch.allocate(bytes, user); },
                                        [&torch](void* block) { torch.free(block); });
    std::vector<AllocationEvent> events;
    BlocksElsewhere elsewhere;  // what calls allocate for outputs whose memory is given
    walk(log, [&](Runner& runner, const Workspace& workspace, GraphPlan::Range g) {
      int blocks = log->blocks();
      const auto done = [&](int step) {
        check_held(step, log->held(blocks), workspace);
        blocks = log->blocks();
      };
      capture(runner, g, done, [&](int buffer, const at::Tensor& made) {
        const at::Tensor& given = workspace.tensors[static_cast<size_t>(buffer)];
        const int block = log->number_of(made.storage().data());
        if (recording_.is_given(buffer) && block >= 0 && made.const_data_ptr() == made.storage().data() &&
            made.storage().nbytes() <= given.storage().nbytes())
          elsewhere.emplace(block, given.mutable_data_ptr());
      });
      capture_.abandon();
      events = log->events();
    });
    const double first_ms = watch_.milliseconds();
    BlockPlaces places = place_blocks(events, elsewhere);
    note_blocks(events, places);
    char* const memory = recording_.make_blocks(places.bytes, given_);
    const auto placed =
        std::make_shared<PlacedBlocks>(std::move(events), std::move(places), memory, std::move(elsewhere));
    walk(placed, [&](Runner& runner, const Workspace& workspace, GraphPlan::Range g) {
      RecordedGraph made;
      capture(runner, g, [&](int step) {
        note_kernel(step, workspace, made);
        note_results(step, workspace);
      });
      made.graph = capture_.end();
      recording_.add(g.begin, std::move(made));
    });
    log::print(log::Topic::Graph,
               "captured in {:.2f} ms: {:.2f} until the first capture, {:.2f} with it; {:.2f} in calls",
               watch_.milliseconds(), prepared_ms_, first_ms, calls_ms_);
    VESTA_CHECK(placed->complete(), "two captures of the same steps allocate differently");
  }

 private:
  c10::Device device() const { return recording_.stream().device(); }

  static void note_blocks(const std::vector<AllocationEvent>& events, const BlockPlaces& places) {
    if (!log::enabled(log::Topic::Graph)) return;
    int64_t requested = 0, largest = 0, kept = 0;
    std::vector<int64_t> live(places.offsets.size(), 0);
    for (const AllocationEvent& e : events) {
      requested += e.bytes;
      largest = std::max(largest, e.bytes);
      live[static_cast<size_t>(e.block)] = e.bytes;
    }
    for (const int64_t bytes : live) kept += bytes;
    log::print(log::Topic::Graph,
               "calls allocate {} blocks of {} bytes, the largest of {}, in {} bytes of memory; {} bytes are not freed",
               live.size(), requested, largest, places.bytes, kept);
  }

  // Calls each(runner, workspace, graph) for each graph of the plan, on the stream to capture on, while `source` serves
  // allocations.
  template <class F>
  void walk(std::shared_ptr<AllocationSource> source, F&& each) {
    const c10::StreamGuard on(torch_cuda()->stream(capture_.native(), device().index()));
    const ServedBy served(std::move(source));
    WorkspaceLease workspace;
    bool wrote = false;
    Runner runner(what_.artifact, device(), sizes_, in_, *workspace, wrote, what_.entries);
    runner.begin(what_.program, what_.prepacked, &recording_, given_);
    int at = 0;
    for (const GraphPlan::Range& g : recording_.plan().graphs) {
      runner.pass_over(at, g.begin);
      each(runner, *workspace, g);
      at = g.end;
    }
  }

  void capture(Runner& runner, GraphPlan::Range g, const std::function<void(int)>& done,
               const Runner::Made& made = {}) {
    capture_.begin();
    int step = g.begin;
    Stopwatch of_step;
    try {
      const auto each = [&](int finished) {
        if (!std::holds_alternative<artifact::Launch>(what_.artifact.steps[static_cast<size_t>(finished)]))
          calls_ms_ += of_step.milliseconds();
        fault::reached("capture");
        done(finished);
        step = finished + 1;
        of_step = Stopwatch();
      };
      runner.capture(g.begin, g.end, each, made);
    } catch (const c10::OutOfMemoryError&) {
      abandon();
      throw;
    } catch (const machine::OutOfMemory&) {
      abandon();
      throw;
    } catch (const StepRefused&) {
      abandon();
      throw;
    } catch (const std::exception& e) {
      abandon();
      throw StepRefused{step, first_line(e.what())};
    }
  }
  void abandon() {
    capture_.abandon();
    torch_cuda()->clear_error();
  }

  // Memory that a step has allocated and holds, but not as a tensor of the program, belongs to a library's cache. The
  // library may free it while the graph uses it.
  static void check_held(int step, const std::vector<const void*>& held, const Workspace& workspace) {
    for (const void* block : held) {
      const bool result = std::any_of(workspace.tensors.begin(), workspace.tensors.end(), [&](const at::Tensor& t) {
        return t.defined() && t.has_storage() && t.storage().data() == block;
      });
      if (!result) throw StepRefused{step, "it keeps memory between calls", true};
    }
  }

  void note_kernel(int number, const Workspace& workspace, RecordedGraph& graph) const {
    const auto* const launch = std::get_if<artifact::Launch>(&what_.artifact.steps[static_cast<size_t>(number)]);
    const Resolved::Step& sizes = sizes_.now().steps[static_cast<size_t>(number)];
    if (!launch || sizes.launch.items == 0) return;
    KernelNode k;
    k.node = capture_.last_node();
    k.kernel = what_.program.steps()[static_cast<size_t>(number)].kernel.get();
    if (k.kernel->waits()) capture_.start_early(k.node);
    for (size_t i = 0; i < launch->buffers.size(); ++i) {
      const int b = launch->buffers[i];
      const artifact::Role role = what_.artifact.buffers[static_cast<size_t>(b)].role;
      const int64_t offset = sizes.launch.offsets[i];
      void* const at = static_cast<char*>(workspace.pointers[static_cast<size_t>(b)]) + offset;
      k.arguments.push_back(argument_for(what_.artifact.buffers[static_cast<size_t>(b)], at));
      if (role != artifact::Role::Arena && recording_.plan().addresses[static_cast<size_t>(b)] == Address::Any)
        k.moving.push_back({i, b, offset});
    }
    if (k.moving.empty()) return;
    k.launch = &sizes.launch;
    k.shape = shape_of(launch->grid, sizes.launch.items);
    graph.kernels.push_back(std::move(k));
  }

  void note_results(int number, const Workspace& workspace) const {
    artifact::for_each_use(what_.artifact.steps[static_cast<size_t>(number)], [&](int b, uint8_t access, bool) {
      const at::Tensor& made = workspace.tensors[static_cast<size_t>(b)];
      if (access & artifact::kWrites && recording_.is_own(b) && made.defined()) recording_.set_own(b, made, given_);
    });
  }

  const Stopwatch watch_;
  const RecordedProgram& what_;
  Sizes& sizes_;
  GivenMemory& given_;
  const CallInputs in_;
  Recording& recording_;
  machine::CaptureStream& capture_;
  const double prepared_ms_;
  double calls_ms_ = 0;  // in steps that are not kernels of ours
};

}  // namespace

bool calls_operators(const artifact::Artifact& artifact) {
  return std::any_of(artifact.steps.begin(), artifact.steps.end(), [](const artifact::Step& s) {
    return std::holds_alternative<artifact::Extern>(s) || std::holds_alternative<artifact::Call>(s);
  });
}

std::unique_ptr<Recording> record(const RecordedProgram& what, Sizes& sizes, const CallInputs& in, GivenMemory& given,
                                  GraphPlan plan, const std::set<int>& copied, ReplayStream& on) {
  const machine::RelaxedThread relaxed;
  auto recording =
      std::make_unique<Recording>(what.artifact, sizes.share(), in, what.prepacked, given, std::move(plan), copied, on);
  try {
    Recorder(what, sizes, in, given, *recording).run();
  } catch (...) {
    recording->forget_inputs();
    throw;
  }
  recording->forget_inputs();
  return recording;
}

}  // namespace vesta::runtime
