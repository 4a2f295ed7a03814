// The backward pass of a traced program: the autograd graph that PyTorch's own kernels have built on the fake tensors
// is walked on the tracing thread, and each node's formula records into the same graph.
//
// The order of nodes, the sums of gradients and the checks of results are those of torch's engine
// (torch/csrc/autograd/engine.cpp), which itself cannot run here: its threads do not see the trace.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "graph/joint.h"
#include "interop/autograd_node.h"
#include "vesta/error.h"

namespace c10 {
struct IValue;
}

namespace vesta::trace {

class Recorder;

// An input of the program.
struct JointInput {
  at::Tensor real, fake;
  int input = -1;                 // of the graph
  torch::autograd::Edge history;  // of the fake tensor when the program began; invalid: it required no gradient
};

// The formula of a node of autograd has failed.
struct FormulaFailed : Unsupported {
  FormulaFailed(const torch::autograd::Node& node, const std::string& why)
      : Unsupported(why), node(node.name()), sequence_number(node.sequence_nr()) {}
  std::string node;
  uint64_t sequence_number;
};

// Appends tangents, the backward passes of all results that require a gradient, and the gradients of all inputs that
// do. Requires that the outputs of the graph are known. Must run where operators reach the trace without autograd.
// Throws Unsupported or FormulaFailed; then the graph is as it was.
graph::Joint add_backward(Recorder& r, const std::vector<c10::IValue>& results, const std::vector<JointInput>& inputs);

}  // namespace vesta::trace
