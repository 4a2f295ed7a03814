// Gives attention kernels of a GPU the keys and values that several heads share once, instead of copies for each head
// (repeat_kv in models with grouped-query attention). The kernels of FlashAttention and cuDNN read them for each group
// of heads, as they do for `enable_gqa=True`.
#include "graph/passes/attention.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {
bool share_keys_of_groups(Graph& graph, const PassContext& context) {
  // Each head's keys are the same numbers, but the library may choose another kernel.
  if (!context.inference || context.options.numerics == "eager") return false;
  Rewriter rewriter(graph, context);
  graph.for_each_node([&](Node* n) {
    // The memory-efficient kernel has no groups.
    if (n->op->role() != Role::Attention || is_op(n, "aten::_scaled_dot_product_efficient_attention") || n->prepacked)
      return;
    Value *const keys = repeated_heads(n->input(1)), *const values = repeated_heads(n->input(2));
    if (!keys || !values || keys->type.sizes[1] != values->type.sizes[1] || !rewriter.may()) return;
    Builder b(graph, n);
    b.source = n->source;
    graph.set_arg(n, 1, b("aten::squeeze.dim", {keys, Expr(2)}));
    graph.set_arg(n, 2, b("aten::squeeze.dim", {values, Expr(2)}));
  });
  return rewriter.changed();
}

}  // namespace vesta::graph
