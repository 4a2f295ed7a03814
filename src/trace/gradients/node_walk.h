// Runs the nodes of an autograd graph on fake tensors: their formulas record into the trace's graph.
//
// The order of nodes, the sums of gradients and the checks of results are those of torch's engine
// (torch/csrc/autograd/engine.cpp), which itself cannot run here: its threads do not see the trace.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "interop/autograd_node.h"
#include "vesta/error.h"

namespace vesta::graph {
class Value;
}

namespace vesta::trace {

class Recorder;

// The formula of a node of autograd has failed.
struct FormulaFailed : Unsupported {
  FormulaFailed(const torch::autograd::Node& node, const std::string& why)
      : Unsupported(why), node(node.name()), sequence_number(node.sequence_nr()) {}
  std::string node;
  uint64_t sequence_number;
};

using Ends = std::unordered_set<const torch::autograd::Node*>;

// Calls f once for every node that is reached. Ends are reached, and lead nowhere.
void for_each_node(std::vector<NodePointer> open, const Ends& ends, const std::function<void(const NodePointer&)>& f);

// Whether nodes of this kind save no tensor.
bool saves_nothing(const torch::autograd::Node& node);

class NodeWalk {
 public:
  // `ends`: the walk goes no further there, and keeps the gradients that arrive.
  NodeWalk(Recorder& r, const Ends& ends) : recorder_(r), ends_(ends) {}

  // Adds a gradient to those that have arrived at an edge. An undefined one counts as none.
  void add(const torch::autograd::Edge& to, at::Tensor gradient);
  // Asked before a node runs, with what has arrived at it, which it may replace. False: it does not run.
  using Before = std::function<bool(const NodePointer&, torch::autograd::variable_list&)>;
  // Told of what a node gives, which it may replace. `given`: what has arrived at the node.
  using After = std::function<void(const NodePointer&, torch::autograd::variable_list& found,
                                   const torch::autograd::variable_list& given)>;
  // Told of an end when all of its gradients have arrived; undefined: none.
  using AtEnd = std::function<void(const NodePointer&, at::Tensor)>;
  // Runs the nodes that are reached from `starts`, each once all of its gradients have arrived. Throws FormulaFailed,
  // and what the functions throw.
  void run(const std::vector<NodePointer>& starts, const Before& before = {}, const AtEnd& at_end = {},
           const After& after = {});
  // What has arrived at an end; undefined: nothing.
  at::Tensor arrived(const torch::autograd::Edge& at) const;

 private:
  torch::autograd::variable_list results_of(const NodePointer& node, torch::autograd::variable_list given);

  Recorder& recorder_;
  const Ends& ends_;
  std::unordered_map<const torch::autograd::Node*, torch::autograd::variable_list> buffers_;
};

// The gradient in the layout in which AccumulateGrad keeps it: that of its leaf.
graph::Value* in_layout_of_leaf(Recorder& r, const at::Tensor& gradient, const at::Tensor& leaf);

}  // namespace vesta::trace
