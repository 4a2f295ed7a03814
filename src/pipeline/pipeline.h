// The order of the stages: graph -> passes -> plan -> kernels' code -> artifact -> executable. No other file knows it.
#pragma once

#include <memory>
#include <vector>

#include "base/cancel.h"
#include "base/target.h"
#include "graph/graph.h"
#include "runtime/executable.h"
#include "vesta/options.h"
#include "vesta/report.h"

namespace vesta::runtime {
struct Differentiable;
}  // namespace vesta::runtime

namespace vesta::pipeline {

class BackwardCompiles;

struct Result {
  std::shared_ptr<const runtime::Executable> executable;
  CompileReport report;
  // Of a program with gradients (start_training), whose forward half is the executable. nullptr and none for others.
  std::shared_ptr<const runtime::Differentiable> training;
  std::vector<std::shared_ptr<BackwardCompiles>> backward;
};

// Facts that an entry point knows besides the graph.
struct Traced {
  artifact::InputFacts facts;
  int64_t op_count = 0;
  double trace_ms = 0;         // spent before the compile; the report's first stage
  int64_t frames = 0;          // of Python functions that the graph replaces
  double eager_us = 0;         // measured microseconds of an eager call; 0: unknown
  bool may_choose = false;     // the option strategy counts: the caller knows what to do with a NotWorthIt
  bool inference = true;       // no input requires a gradient
  bool deterministic = false;  // torch.use_deterministic_algorithms is on, with or without warn_only
};

// The target for a graph on this machine: the GPU that it computes on, if this process has a code generator for it.
// Otherwise this CPU; operators on other devices then stay calls into ATen.
const Target& target_of(const graph::Graph& graph);

// Consumes the graph. Throws Unsupported or InternalError. With Options::strategy "auto" also NotWorthIt. The result
// runs on this machine if the machine is like the target. nullptr: target_of(graph). `cancel`: asked between stages,
// passes and kernels; if it is cancelled, throws Cancelled.
Result compile(std::unique_ptr<graph::Graph> graph, const Options& options, Traced traced = {},
               const Target* target = nullptr, const CancelToken* cancel = nullptr);

// Does what the first trace and compile of a process need and all compiles share, a few milliseconds in all. Entry
// points call it when they are loaded or made, so that no first call pays for it. Runs once per process.
void prepare() noexcept;

}  // namespace vesta::pipeline
