// Softmax in a wider type than that of its operand: the loss of a language model whose logits are bf16.
#include <algorithm>

#include "graph/joint.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {
namespace {

// The operand before casts and views.
const Value* origin(const Value* v) {
  while (v->producer) {
    const Node& n = *v->producer;
    if (n.op->family() != Family::View && n.op->name != "aten::_to_copy") break;
    v = n.input(0);
  }
  return v;
}

bool is_wide_softmax(const Node& n) {
  const std::string_view name = n.op->name;
  if (name != "aten::_softmax" && name != "aten::_log_softmax") return false;
  return element_size(origin(n.input(0))->type.dtype) < element_size(n.results[0]->type.dtype);
}

}  // namespace

std::vector<Node*> find_wide_softmax(const Graph& graph, const Joint& joint) {
  std::vector<Node*> out;
  for (Node* n = graph.first(); n && n != joint.first_backward; n = n->next) {
    if (!is_wide_softmax(*n)) continue;
    const Value* const result = n->results[0];
    const bool crosses = std::ranges::find(joint.crossings, result, &Crossing::value) != joint.crossings.end();
    if (!crosses && checkpoint_of(joint, *result) < 0 && !graph.is_result(result)) out.push_back(n);
  }
  return out;
}

void divide_softmax(Graph& joint, std::span<Node* const> nodes) {
  for (Node* const n : nodes) {
    Builder b(joint, n);
    b.source = n->source;
    const std::vector<Value*> parts = n->op->row->decompose(b, *n);
    if (parts.empty() || parts[0]->type != n->results[0]->type) continue;
    joint.replace_uses(n->results[0], parts[0]);
    joint.erase(n);
  }
}

}  // namespace vesta::graph
