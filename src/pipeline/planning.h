// The stages from a traced graph to its plan: passes and planner. Layers of a model are planned once.
#pragma once

#include "base/cancel.h"
#include "base/compile_memory.h"
#include "base/fault.h"
#include "base/stage_clock.h"
#include "graph/passes/pass.h"
#include "pipeline/dump.h"
#include "pipeline/labels.h"
#include "pipeline/pipeline.h"
#include "schedule/plan.h"

namespace vesta::pipeline {

// The name by which Options::skip_passes switches off that layers are planned once.
inline constexpr std::string_view kLayersPass = "layers";

// The context of the passes of a compile. It refers to the options and to the target, which must outlive it.
graph::PassContext pass_context(const Options& options, const Target& target, bool inference);

// Whether graphs and plans are verified between stages, where a wrong pass would otherwise show up far away: in debug
// builds, and with VESTA_VERIFY in the environment.
bool verifies_stages();

// Runs a stage with its clock and its place for faults, and reports its time.
template <class F>
void run_stage(const char* name, const CancelToken& cancel, CompileReport& report, F&& body) {
  cancel.check();
  const StageClock clock(name);
  fault::reached(name);
  body();
  report.stages.push_back({name, clock.milliseconds()});
}

class Planning {
 public:
  Planning(graph::Graph& graph, const Labels& labels, const Options& options, const Target& target,
           const CancelToken& cancel, Dump& dump, CompileReport& report, bool shares_kernels = true)
      : graph_(graph),
        labels_(labels),
        options_(options),
        target_(target),
        cancel_(cancel),
        dump_(dump),
        report_(report),
        shares_kernels_(shares_kernels) {}

  // The plan of the graph. Of a model with many layers a few are rewritten and planned, and the plan is repeated for
  // the others. The graph then keeps its nodes as they were traced, but its inputs, outputs and guards are those of the
  // plan.
  schedule::Plan plan(const Traced& traced);
  // The same with all layers rewritten and planned, so that the graph is the one that the plan computes.
  schedule::Plan plan_every_layer(const Traced& traced);

 private:
  std::optional<schedule::Plan> plan_layers_once(const Traced& traced);
  schedule::Plan plan(graph::Graph& graph, const Traced& traced);
  void run_passes(graph::Graph& graph, bool inference);
  void take_memory(int64_t bytes, const graph::Graph& planned);
  bool packs_too_much(const schedule::Plan& few, const schedule::Plan& all) const;

  graph::Graph& graph_;
  const Labels& labels_;
  const Options& options_;
  const Target& target_;
  const CancelToken& cancel_;
  Dump& dump_;
  CompileReport& report_;
  const bool shares_kernels_;  // products that differ in their sizes alone share a kernel in the plan
  CompileMemory memory_{CompileMemory::Part::Plans};
};

}  // namespace vesta::pipeline
