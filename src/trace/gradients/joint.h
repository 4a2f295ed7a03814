// The backward pass of a traced program: the autograd graph that PyTorch's own kernels have built on the fake tensors
// is walked on the tracing thread, and each node's formula records into the same graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
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

// A result whose hooks autograd calls after the program.
struct HookedResult {
  torch::autograd::Edge edge;  // where its gradient arrives
  size_t result = 0;
  bool of_node = false;  // its node calls hooks, and passes on what they give
};

// Appends tangents, the backward passes of all results that require a gradient, and the gradients of all inputs that
// do. Requires that the outputs of the graph are known. Must run where operators reach the trace without autograd.
// Throws Unsupported or FormulaFailed (node_walk.h); then the graph is as it was.
// `released`: nodes that the program's own backward passes have freed.
graph::Joint add_backward(Recorder& r, const std::vector<c10::IValue>& results, const std::vector<JointInput>& inputs,
                          const ReleasedNodes& released, std::span<const HookedResult> hooked);

}  // namespace vesta::trace
