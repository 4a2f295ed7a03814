#include "graph/passes/rewriter.h"

namespace vesta::graph {

Rewriter::Rewriter(Graph& graph, const PassContext& context)
    : graph_(graph), context_(context), output_(graph.value_count()) {
  for (const Output& o : graph.outputs)
    if (o.value) output_[o.value->id] = true;
}

bool Rewriter::can_replace(const Value* from, const Value* to) const {
  if (from == to || from->type != to->type) return false;
  if (!is_output(from)) return true;
  return to->producer && to->producer->op->family() != Family::View && !is_output(to);
}

bool Rewriter::replace(Value* from, Value* to) {
  if (!can_replace(from, to) || !may()) return false;
  substitute(from, to);
  return true;
}

void Rewriter::substitute(Value* from, Value* to) {
  if (is_output(from)) {
    if (to->type.strides != from->type.strides) to = own_copy(graph_, to->producer->next, to, from->type);
    output_[from->id] = false;
    if (to->id >= output_.size()) output_.resize(to->id + 1);
    output_[to->id] = true;
  }
  graph_.replace_uses(from, to);
}

void Rewriter::substitute(Value* from, const Node* original, const Op& op, std::vector<Arg> args, Node* before) {
  Node* made = graph_.add_node(op, std::move(args), {from->type}, before);
  made->source = original->source;
  substitute(from, made->results[0]);
}

Value* own_copy(Graph& graph, Node* before, Value* v, const TensorType& type) {
  static const Op& clone = declare_op("aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor");
  return graph.add_node(clone, {v, None{}}, {type}, before)->results[0];
}

std::vector<bool> results_of(const Graph& graph) {
  std::vector<bool> is_result(graph.value_count());
  for (const Output& o : graph.outputs)
    if (o.value) is_result[o.value->id] = true;
  for (const Mutation& m : graph.mutations) is_result[m.value->id] = true;
  return is_result;
}

bool has_one_use(const Graph& graph, const Value* v) { return v->users.size() == 1 && !graph.is_result(v); }

}  // namespace vesta::graph
