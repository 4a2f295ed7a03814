// A backward pass that the program itself runs: loss.backward(), torch.autograd.grad(...). It is recorded like the
// program's other operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "trace/gradients/node_walk.h"

namespace vesta::trace {

struct JointInput;

// What torch.autograd's engine is asked for. Tensors are fake or the program's own.
struct InnerBackward {
  std::vector<at::Tensor> results;
  std::vector<at::Tensor> tangents;  // by result; undefined: none
  std::vector<at::Tensor> inputs;    // gradients of these alone; empty: of all leaves
  bool accumulates = true;           // into .grad of leaves; else the gradients of `inputs` are returned
  bool keeps_graph = false;
  bool creates_graph = false;
  bool allows_unused = true;  // else each input must have been used
};

struct InnerGradients {
  struct Leaf {
    at::Tensor leaf;      // the program's own tensor, or a fake one that the program has made
    at::Tensor gradient;  // in the leaf's layout, in memory of its own
  };
  std::vector<Leaf> leaves;          // where it accumulates
  std::vector<at::Tensor> captured;  // else, by input; undefined: it was not used
};

// Nodes whose saved tensors a pass has freed, and which save some.
struct ReleasedNodes {
  std::vector<NodePointer> kept;
  Ends nodes;
};

// Requires a trace with gradients. Must run where operators reach the trace without autograd, or with it if the pass
// creates a graph. Throws Unsupported, what a formula throws, or what eager throws; then the trace must end.
InnerGradients run_backward(Recorder& r, const InnerBackward& call, const std::vector<JointInput>& inputs,
                            ReleasedNodes& released);
// Runs it in the calling thread's trace. Throws NeedsGradients where the trace records none.
InnerGradients run_backward(const InnerBackward& call);

// Whether a backward pass from the tensor would need what another pass has freed.
bool is_released(const at::Tensor& t, const Ends& released);

// Whether autograd would call hooks on the gradient of a leaf.
bool has_gradient_hooks(const at::Tensor& leaf);

}  // namespace vesta::trace
