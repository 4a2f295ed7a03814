// A backward pass that the program itself runs: loss.backward(), torch.autograd.grad(...). It is recorded like the
// program's other operators.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <vector>

#include "trace/gradients/node_walk.h"

namespace vesta::trace {

struct JointInput;

// The program's own code in a pass, called when torch's engine calls it. Each function runs where operators reach the
// trace as they do in the program, and may throw.
class PassEvents {
 public:
  virtual ~PassEvents() = default;
  // Runs a hook that the program has put on a tensor that it made. Gradients may be undefined.
  virtual void run_hook(const torch::autograd::FunctionPreHook& hook, torch::autograd::variable_list& gradients) = 0;
  // The same for hooks on a node, which get all of its gradients: those that arrive, and those that it gives.
  virtual void run_node_hook(const torch::autograd::FunctionPreHook& hook,
                             torch::autograd::variable_list& gradients) = 0;
  virtual void run_node_hook(const torch::autograd::FunctionPostHook& hook, torch::autograd::variable_list& gradients,
                             const torch::autograd::variable_list& arrived) = 0;
  // What the hooks on a leaf of the program make of its gradient, which may be undefined.
  virtual at::Tensor hooked(const at::Tensor& leaf, const at::Tensor& gradient) = 0;
  // A leaf, the program's own tensor or a fake one that the program has made, gets a gradient. It is in the leaf's
  // layout, in memory of its own.
  virtual void accumulate(const at::Tensor& leaf, const at::Tensor& gradient) = 0;
};

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

// Nodes whose saved tensors a pass has freed, and which save some.
struct ReleasedNodes {
  std::vector<NodePointer> kept;
  Ends nodes;
};

// Requires a trace with gradients. Must run where operators reach the trace without autograd, or with it if the pass
// creates a graph. Throws Unsupported, what a formula or an event throws, or what eager throws; then the trace must
// end. If the pass does not accumulate: the gradients, by input; undefined: it was not used.
std::vector<at::Tensor> run_backward(Recorder& r, const InnerBackward& call, const std::vector<JointInput>& inputs,
                                     ReleasedNodes& released, PassEvents& events);
// Runs it in the calling thread's trace. Throws NeedsGradients where the trace records none.
std::vector<at::Tensor> run_backward(const InnerBackward& call, PassEvents& events);

// Whether a backward pass from the tensor would need what another pass has freed.
bool is_released(const at::Tensor& t, const Ends& released);

}  // namespace vesta::trace
