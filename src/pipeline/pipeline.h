// The only place that knows the order of the stages: graph -> passes -> plan -> kernels' code -> artifact -> executable.
#pragma once

#include <memory>

#include "graph/graph.h"
#include "runtime/executable.h"
#include "vesta/options.h"
#include "vesta/report.h"

namespace vesta::pipeline {

struct Result {
  std::shared_ptr<const runtime::Executable> executable;
  CompileReport report;
};

// Consumes the graph. Throws Unsupported or InternalError.
Result compile(std::unique_ptr<graph::Graph> graph, const Options& options);

}  // namespace vesta::pipeline
