// The rules that every rewrite must keep: the rewrite limit, and the binding types of outputs.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {

class Rewriter {
 public:
  Rewriter(Graph& graph, const PassContext& context);
  Graph& graph() { return graph_; }
  const PassContext& context() const { return context_; }
  bool changed() const { return changed_; }

  bool is_output(const Value* v) const { return v->id < output_.size() && output_[v->id]; }
  // Whether `to` may replace `from` everywhere. Types must be equal. A graph output is a tensor of its own, so its
  // value is replaced only by one that a node computes and that is not an output yet.
  bool can_replace(const Value* from, const Value* to) const;
  // Replaces `from` if that is allowed and within the rewrite limit. The dead-code pass removes its producer.
  bool replace(Value* from, Value* to);
  // Replaces without can_replace(): the caller has made `to` as a full substitute for `from`. A node computes `to`. The
  // strides of `to` may be others, also those of dimensions of size 1, which users see: an output then becomes a copy
  // with the strides of `from`.
  void substitute(Value* from, Value* to);
  // Substitutes the result of a new node for `from`. The node comes before `before` and has the source of `original`.
  void substitute(Value* from, const Node* original, const Op& op, std::vector<Arg> args, Node* before);
  // Asks for one rewrite, which the caller then makes.
  bool may() {
    if (!context_.may_rewrite()) return false;
    changed_ = true;
    return true;
  }
  void may_have_changed() { changed_ = true; }

 private:
  Graph& graph_;
  const PassContext& context_;
  std::vector<bool> output_;
  bool changed_ = false;
};

inline bool is_op(const Node* n, std::string_view name) { return n && n->op->name == name; }
inline bool is_op(const Value* v, std::string_view name) { return is_op(v->producer, name); }
// The argument as a Value, or nullptr.
inline Value* value_of(const Arg& a) {
  Value* const* v = std::get_if<Value*>(&a);
  return v ? *v : nullptr;
}
// Indexed by value id: whether the graph returns the value or writes it to an input.
std::vector<bool> results_of(const Graph& graph);
// Whether v has exactly one use, which is by a node.
bool has_one_use(const Graph& graph, const Value* v);
// aten::clone of v with the given (binding) type, inserted before `before`.
Value* own_copy(Graph& graph, Node* before, Value* v, const TensorType& type);
// Whether the node may be repeated or removed without a visible difference. An operator without a row may draw random
// numbers or have effects.
inline bool is_pure(const Node& n) { return n.op->row && !n.op->has(kRandom); }

}  // namespace vesta::graph
