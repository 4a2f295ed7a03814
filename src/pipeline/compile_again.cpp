#include "runtime/compile_again.h"

#include "pipeline/pipeline.h"

namespace vesta::runtime {

std::optional<artifact::Artifact> compile_again(const program::Variant& variant) {
  Options options;
  options.numerics = variant.origin.numerics;
  options.packed_weights = variant.origin.packed_weights;
  options.kernels = variant.origin.kernels;
  options.cuda_graphs = variant.origin.cuda_graphs;
  options.copied_inputs = variant.origin.copied_inputs;
  options.cuda_graph_memory = variant.origin.cuda_graph_memory;
  pipeline::Traced traced;
  traced.facts = variant.artifact.facts;
  traced.inference = variant.origin.inference;
  traced.deterministic = variant.origin.deterministic;
  std::unique_ptr<graph::Graph> graph = graph::parse(variant.origin.graph);
  for (size_t i = 0; i < graph->inputs.size(); ++i) graph->inputs[i].name = variant.artifact.inputs.at(i).name;
  return pipeline::compile(std::move(graph), options, std::move(traced)).executable->artifact();
}

}  // namespace vesta::runtime
