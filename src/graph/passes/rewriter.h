// What every rewrite must respect, in one place: the rewrite limit, and the binding types of outputs.
#pragma once

#include <vector>

#include "graph/passes/pass.h"

namespace vesta::graph {

class Rewriter {
 public:
  Rewriter(Graph& graph, const PassContext& context);
  Graph& graph() { return graph_; }
  const PassContext& context() const { return context_; }
  bool changed() const { return changed_; }

  bool is_output(const Value* v) const { return v->id < output_.size() && output_[v->id]; }
  // Whether `to` may stand for `from` everywhere. Types must be equal. A graph output is a tensor of its own, so its
  // value is only replaced by one that a node computes anew and that is no output already.
  bool can_replace(const Value* from, const Value* to) const;
  // Replaces if allowed and within the rewrite limit; the producer of `from` stays for dead-code.
  bool replace(Value* from, Value* to);
  // The same without can_replace: the caller has made `to` as a full substitute for `from`.
  void substitute(Value* from, Value* to);
  // Asks for one rewrite; the caller then makes it.
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
// By id, the values that the graph returns or writes to its inputs.
std::vector<bool> results_of(const Graph& graph);
// v has exactly one use: by a node, as no output and no mutation.
bool has_one_use(const Graph& graph, const Value* v);
// aten::clone of v with the given (binding) type, inserted before `before`.
Value* own_copy(Graph& graph, Node* before, Value* v, const TensorType& type);
// Nodes whose repetition or removal nobody can see. An operator without a row may draw random numbers or have effects.
inline bool is_pure(const Node& n) { return n.op->row && !n.op->has(kRandom) && !n.op->has(kSideEffect); }

}  // namespace vesta::graph
