// The backward method of a torch.autograd.Function that the program calls. It is traced when the function is called,
// on placeholders for its tangents, like the program's other Python code; a walk that comes to the function's node adds
// copies of what was recorded.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <vector>

#include "interop/autograd_node.h"

namespace vesta::graph {
class Node;
class Value;
}  // namespace vesta::graph

namespace vesta::trace {

class Recorder;

class TracedFunction {
 public:
  // Runs the node, whose apply() calls Python code. `results`: the tensors of the call that have this node. Throws
  // Unsupported where the method draws random numbers or writes to a tensor that it has not made, or what it throws.
  // `fills_zeros`: it gets zeros for tangents that are not defined.
  TracedFunction(Recorder& r, NodePointer node, const std::vector<at::Tensor>& results, bool fills_zeros);

  const NodePointer& node() const { return node_; }
  const std::vector<at::Tensor>& results() const { return results_; }
  // Whether the method only passes on what it gets, for every result.
  bool passes_on() const;
  int place() const { return place_; }  // TraceOptions::place when it was called
  // What the method gives for these tangents.
  torch::autograd::variable_list replay(Recorder& r, const torch::autograd::variable_list& tangents) const;

 private:
  NodePointer node_;
  std::vector<at::Tensor> results_;
  int place_;
  bool fills_zeros_;
  std::vector<graph::Value*> tangents_;  // by result of the node; nullptr: it has no tangent
  std::vector<const graph::Node*> recorded_;
  std::vector<graph::Value*> gradients_;  // nullptr: undefined
};

}  // namespace vesta::trace
