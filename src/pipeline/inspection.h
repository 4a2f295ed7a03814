// What a compile decided, as text, for tools that repeat a compile and look for its fault.
#pragma once

#include "graph/graph.h"
#include "pipeline/labels.h"
#include "pipeline/pipeline.h"
#include "schedule/plan.h"

namespace vesta::pipeline {

// A kernel of the plan, and what it computes as a graph of its own (graph/part.h).
struct InspectedKernel {
  std::string name;
  std::string graph;
  std::vector<uint32_t> inputs, outputs;  // values of Inspection::graph
};

struct Inspection {
  std::string graph;  // after the passes
  std::string plan;
  std::vector<InspectedKernel> kernels;  // in the order of steps; kernels that share a node are one
};

// Runs the passes and the planner as compile() does, and generates no code. Throws what these stages throw.
Inspection inspect(std::unique_ptr<graph::Graph> graph, const Options& options, const Traced& traced);

// Numbers the values of the graph anew. The texts have the labels.
Inspection inspection_of(graph::Graph& graph, const schedule::Plan& plan, const Labels& labels);

}  // namespace vesta::pipeline
