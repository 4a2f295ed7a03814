// Which values of a graph have a history: the graph's nodes, run one by one under autograd, would record one for them.
//
// A backward pass with create_graph=True runs the graph in this way (runtime/differentiable.h). Its derivatives are the
// program's if each operator reads no more history than it read in the program. A tensor and its detached alias are one
// value, so where the program reads the alias, the graph gets a detach node. Where a tensor and the values in its
// memory have different histories, the graph cannot say so.
#pragma once

#include <ATen/core/ivalue.h>

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"

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
  // What the operator at work reads of a tensor with this value: the value, or one without its history.
  graph::Value* as_read(const at::Tensor& t, graph::Value* value);
  // Call it before a tensor is written.
  void note_write(const at::Tensor& target, const graph::Value* value);
  // A tensor has another history than the values in its memory.
  void part() { is_whole_ = false; }
  // At the end of the program: whether the graph's nodes have the program's derivatives.
  bool is_whole(c10::ArrayRef<c10::IValue> results);

 private:
  void follow_new_nodes();
  bool has(const graph::Value* v);
  bool has(const at::Tensor& t);

  graph::Graph& graph_;
  const graph::Node* followed_ = nullptr;  // the last node
  std::unordered_set<const graph::Value*> recorded_;
  std::unordered_map<const graph::Value*, graph::Value*> detached_;
  bool is_whole_ = true;
  // Of the operator at work.
  bool is_working_ = false, in_grad_mode_ = false;
  uint32_t first_value_ = 0;                             // that it makes
  std::vector<const c10::TensorImpl*> without_history_;  // arguments that autograd does not follow, but nodes would
};

}  // namespace vesta::trace
