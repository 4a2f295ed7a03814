// The only place that knows the order of the stages: graph -> passes -> plan -> kernels' code -> artifact ->
// executable.
#pragma once

#include <memory>

#include "base/target.h"
#include "graph/graph.h"
#include "runtime/executable.h"
#include "vesta/options.h"
#include "vesta/report.h"

namespace vesta::pipeline {

struct Result {
  std::shared_ptr<const runtime::Executable> executable;
  CompileReport report;
};

// What a front end knows besides the graph.
struct Traced {
  artifact::InputFacts facts;
  int64_t op_count = 0;
  double trace_ms = 0;         // spent before this; the report's first stage
  bool inference = true;       // no input requires a gradient
  bool deterministic = false;  // torch.use_deterministic_algorithms, with a warning or not
};

// Where a graph is compiled for on this machine: the GPU that it computes on, if it does and this process has a code
// generator for it; this CPU otherwise, and then what the graph does elsewhere stays with ATen.
const Target& target_of(const graph::Graph& graph);

// Consumes the graph. Throws Unsupported or InternalError. The result runs on this machine if it is like the target;
// nullptr: target_of(graph).
Result compile(std::unique_ptr<graph::Graph> graph, const Options& options, Traced traced = {},
               const Target* target = nullptr);

// What the first trace and compile of a process need and is the same for all of them, a few milliseconds in all. Front
// doors call it when they are loaded or made, so that no first call pays for it. Once per process.
void prepare() noexcept;

}  // namespace vesta::pipeline
