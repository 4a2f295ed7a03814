// From a traced graph to a compiled one, on a thread of the pipeline's.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "capture/python/tensors/tensors.h"
#include "capture/python/weak_references.h"
#include "trace/tensors/view_relation.h"
#include "vesta/options.h"
#include "vesta/report.h"

namespace vesta::pipeline {
class Background;
class BackwardCompiles;
}  // namespace vesta::pipeline
namespace vesta::runtime {
struct Differentiable;
class Executable;
}  // namespace vesta::runtime

namespace vesta::capture {

class WeightPacking;

struct CompiledGraph {
  std::shared_ptr<const runtime::Executable> executable;
  // The compile goes on in the background, and nothing below is set yet but the facts of the trace.
  std::shared_ptr<pipeline::Background> pending;
  // While the compile goes on: the same graph as calls into ATen alone, which are ready much earlier. nullptr: there is
  // none. It is never changed, and a run shares it: the compile may end while it runs.
  std::shared_ptr<CompiledGraph> early;
  bool trains = false;  // gradients are recorded
  // The program whose forward half is the executable, and the compiles of its backward halves.
  std::shared_ptr<const runtime::Differentiable> training;
  std::vector<std::shared_ptr<pipeline::BackwardCompiles>> backward;
  bool in_grad_mode = false;  // as in the trace
  bool on_gpu = false;        // a value of the graph is on a GPU
  bool calls_aten = true;     // a run may warn, or run Python code
  bool is_brief = false;      // a run takes no longer than a release of the GIL
  std::vector<trace::ViewRelation> views;
  std::vector<int> unseen_writes;  // trace::Traced::unseen_writes, of a graph that records no gradients
  CompileReport report;
  std::shared_ptr<WeightPacking> packing;
  // To the parameters that weights are derived from. `watched`: the executable's times_derived() when they were made.
  mutable WeakReferences parameters;
  mutable int64_t watched = 0;
};
// Releases the GIL. Throws Unsupported or InternalError. If the compile has not ended at `end`, it goes on in the
// background.
CompiledGraph compile_graph(TracedGraph graph, const Options& options, double trace_ms,
                            std::chrono::steady_clock::time_point end);
// Waits until `end` for a compile in the background, without the GIL. False: it is still running.
bool wait_for_compile(const CompiledGraph& graph, std::chrono::steady_clock::time_point end);
// The same for those of the backward halves, which are known when the compile of the forward half has been taken, and
// for the weights if they are packed in the background.
bool wait_for_backward(const CompiledGraph& graph, std::chrono::steady_clock::time_point end);
// Its compile was that of this process's parent, and its result never comes.
bool is_lost(const CompiledGraph& graph);
// Takes what a compile in the background has made. False: it is still running. Throws what the compile threw. The graph
// has no `early` one any more then.
bool finish_compile(CompiledGraph& graph);
// Whether the `early` graph of one whose compile goes on can run.
bool finish_early(CompiledGraph& graph);

}  // namespace vesta::capture
