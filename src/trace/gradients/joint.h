// The backward pass of a traced program: the autograd graph that PyTorch's own kernels have built on the fake tensors
// is walked on the tracing thread, and each node's formula records into the same graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "graph/joint.h"
#include "interop/autograd_node.h"

namespace c10 {
struct IValue;
}

namespace vesta::trace {

class Recorder;
struct ReleasedNodes;

// An input of the program.
struct JointInput {
  at::Tensor real, fake;
  int input = -1;                 // of the graph
  torch::autograd::Edge history;  // of the fake tensor when the program began; invalid: it required no gradient
};

// Appends tangents, the backward passes of all results that require a gradient, and the gradients of all inputs that
// do. Requires that the outputs of the graph are known. Must run where operators reach the trace without autograd.
// Throws Unsupported or FormulaFailed (node_walk.h); then the graph is as it was.
// `released`: nodes that the program's own backward passes have freed.
graph::Joint add_backward(Recorder& r, const std::vector<c10::IValue>& results, const std::vector<JointInput>& inputs,
                          const ReleasedNodes& released);

}  // namespace vesta::trace
