// Which values of a graph have a history: the graph's nodes, run one by one under autograd, would record one for them.
//
// A backward pass with create_graph=True runs the graph in this way (runtime/differentiable.h). Its derivatives are the
// program's if each operator reads no more history than it read in the program. A tensor and its detached alias are one
// value, so where the program reads the alias, the graph gets a detach node. Where a tensor and the values in its
// memory have different histories, the graph cannot say so.
//
// A hook divides the pass, so the part before it is run from the tensor with the hook on. Tensors with one value and
// several places in autograd's graph (the argument of a module with backward hooks, and what its forward gets) must
// then be told apart: where the program reads another tensor than the first with this value, the graph gets an alias
// node.
#pragma once

#include <ATen/core/ivalue.h>

#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "interop/autograd_node.h"

namespace vesta::trace {

struct Operator;

class GraphHistory {
 public:
  // Reads the graph whenever it is asked. Nodes may only be added meanwhile.
  explicit GraphHistory(graph::Graph& graph) : graph_(graph) {}

  void add_input(const graph::Value* v) { recorded_.insert(v); }  // it requires a gradient
  // Around an operator that autograd sees; the arguments are traced tensors.
  void begin(const Operator& op, c10::ArrayRef<c10::IValue> arguments);
  void end(const Operator& op, c10::ArrayRef<c10::IValue> results);
  // What the operator at work reads of a tensor with this value: the value, its alias, or one without its history.
  graph::Value* as_read(const at::Tensor& t, graph::Value* value);
  // The same for an operator that makes a view: the value or its alias.
  graph::Value* as_viewed(const at::Tensor& t, graph::Value* value);
  // A tensor that has a gradient is a result, or is read by a function that is no operator.
  void note(const at::Tensor& t);
  // The value of the tensor whose gradient arrives at the edge. nullptr: unknown.
  graph::Value* value_at(const torch::autograd::Edge& e) const;
  // From now on no such value is known: an operator reads a tensor by the memory of another one.
  void forget_edges() { knows_edges_ = false; }
  // Call it before a tensor is written.
  void note_write(const at::Tensor& target, const graph::Value* value);
  // A tensor has another history than the values in its memory.
  void part() { is_whole_ = false; }
  // At the end of the program: whether the graph's nodes have the program's derivatives.
  bool is_whole(c10::ArrayRef<c10::IValue> results);

 private:
  using Edge = torch::autograd::Edge;
  using Key = std::pair<const torch::autograd::Node*, uint32_t>;

  void follow_new_nodes();
  graph::Value* at_edge(graph::Value* v, const Edge& e);
  graph::Value* source_of_alias(graph::Value* v, const Edge& e);
  bool has(const graph::Value* v);
  bool has(const at::Tensor& t);

  graph::Graph& graph_;
  const graph::Node* followed_ = nullptr;  // the last node
  std::unordered_set<const graph::Value*> recorded_;
  std::unordered_map<const graph::Value*, graph::Value*> detached_;
  std::unordered_map<const graph::Value*, Edge> first_edges_;  // where the gradient of a value arrives
  std::map<std::pair<Key, const graph::Value*>, graph::Value*> aliases_;
  std::map<Key, graph::Value*> values_;  // by edge; nullptr: several
  std::vector<NodePointer> nodes_;       // of `values_`: another node would get the address of one that is gone
  bool knows_edges_ = true;
  bool is_whole_ = true;
  // Of the operator at work.
  bool is_working_ = false, in_grad_mode_ = false;
  uint32_t first_value_ = 0;                             // that it makes
  std::vector<const c10::TensorImpl*> without_history_;  // arguments that autograd does not follow, but nodes would
  std::vector<std::pair<const c10::TensorImpl*, Edge>> arguments_;  // that it follows
};

}  // namespace vesta::trace
