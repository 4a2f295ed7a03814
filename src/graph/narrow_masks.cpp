#include <vector>

#include "graph/joint.h"

namespace vesta::graph {
namespace {

bool draws_zeros_and_ones(const Node& n) {
  return n.op->name.starts_with("aten::bernoulli") && n.results[0]->type.dtype != DType::Bool;
}

}  // namespace

void narrow_masks(Graph& joint) {
  std::vector<Node*> drawn;
  joint.for_each_node([&](Node* n) {
    if (!draws_zeros_and_ones(*n)) return;
    if (!n->results[0]->users.empty() && !joint.is_result(n->results[0])) drawn.push_back(n);
  });
  for (Node* const n : drawn) {
    Value* const floats = n->results[0];
    Builder b(joint, n->next);
    b.source = n->source;
    Value* const mask = b("aten::ne.Scalar", {floats, Expr(0)});
    Value* const again = b("aten::_to_copy", {mask}, {{"dtype", floats->type.dtype}});
    if (again->type != floats->type) {
      joint.erase(again->producer);
      joint.erase(mask->producer);
      continue;
    }
    joint.replace_uses(floats, again);
    joint.set_arg(mask->producer, 0, floats);
  }
}

}  // namespace vesta::graph
