// Runs a graph by calls of its operators, one by one, through torch's dispatcher. Autograd sees each of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace vesta::trace {

class GraphInterpreter {
 public:
  // `symbols`: a value for each of graph.symbols.
  GraphInterpreter(const graph::Graph& graph, std::span<const int64_t> symbols);

  // Nodes that name a device use this one instead.
  void compute_on(c10::Device device) { device_ = device; }

  void set(const graph::Value* v, at::Tensor t) { tensors_[v] = std::move(t); }
  // Requires that the value is set, by set() or by a run of its node.
  const at::Tensor& get(const graph::Value* v) const { return tensors_.at(v); }
  // Calls the node's operator and sets its results, with the strides that the graph gives for a copy. Returns what the
  // operator returned, an undefined tensor for None. Throws what the operator throws.
  std::vector<at::Tensor> run(const graph::Node& n);

  // Sets the graph's inputs and runs all of its nodes.
  void run(const graph::Graph& graph, std::span<const at::Tensor> inputs);
  // The same for the nodes that these values need. Values in `given` are set already.
  void run(const graph::Graph& graph, std::span<const at::Tensor> inputs, std::span<const graph::Value* const> given,
           std::span<const graph::Value* const> wanted);

  int64_t number(Expr e) const;
  std::vector<int64_t> numbers(const std::vector<Expr>& list) const;
  c10::Device device(const Device& of_node) const;

 private:
  std::optional<c10::Device> device_;
  std::unordered_map<const ExprNode*, int64_t> symbols_;
  std::unordered_map<const graph::Value*, at::Tensor> tensors_;
};

}  // namespace vesta::trace
