#include "graph/joint.h"
#include "graph/passes/uniform.h"

namespace vesta::graph {

void replace_unread_random_states(Graph& joint) {
  std::vector<Node*> found;
  joint.for_each_node([&](Node* n) {
    if (n->op->name != "aten::_scaled_dot_product_efficient_attention") return;
    if (number_of(n->named().get("dropout_p")) == 0.0) found.push_back(n);
  });
  for (Node* const n : found) {
    for (const size_t i : {2, 3}) {
      Value* const state = n->results[i];
      if (!state || state->users.empty() || joint.is_result(state)) continue;
      Builder b(joint, n);
      b.source = n->source;
      Value* const zero = b("aten::zeros", {IntList{}}, {{"dtype", DType::I64}, {"device", n->input(0)->type.device}});
      joint.replace_uses(state, zero);
    }
  }
}

}  // namespace vesta::graph
