// Gives attention kernels of a GPU the keys and values that several heads share once, instead of copies for each head
// (repeat_kv in models with grouped-query attention). The kernels of FlashAttention and cuDNN read them for each group
// of heads, as they do for `enable_gqa=True`.
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {
namespace {

// For v [batch, shared * group, keys, size], which repeats each of the `shared` heads `group` times: the tensor
// [batch, shared, 1, keys, size] that it repeats. nullptr: v repeats nothing.
Value* repeated(const Value* v) {
  const Node* n = v->producer;
  if (v->type.dim() != 4 || !n || n->op->role() != Role::Reshape) return nullptr;
  n = n->input(0)->producer;
  if (is_op(n, "aten::clone")) n = n->input(0)->producer;
  if (!is_op(n, "aten::expand")) return nullptr;
  Value* const x = n->input(0);
  const auto& all = n->results[0]->type.sizes;
  if (x->type.dim() != 5 || all.size() != 5 || !x->type.sizes[2].is_constant(1) || all[2].is_constant(1))
    return nullptr;
  for (const size_t d : {0, 1, 3, 4})
    if (x->type.sizes[d] != all[d]) return nullptr;
  const std::vector<Expr> merged = {all[0], all[1] * all[2], all[3], all[4]};
  return v->type.sizes == merged ? x : nullptr;
}

}  // namespace

bool share_keys_of_groups(Graph& graph, const PassContext& context) {
  // Each head's keys are the same numbers, but the library may choose another kernel.
  if (!context.inference || context.options.numerics == "eager") return false;
  Rewriter rewriter(graph, context);
  graph.for_each_node([&](Node* n) {
    // The memory-efficient kernel has no groups.
    if (n->op->role() != Role::Attention || is_op(n, "aten::_scaled_dot_product_efficient_attention") || n->prepacked)
      return;
    Value *const keys = repeated(n->input(1)), *const values = repeated(n->input(2));
    if (!keys || !values || keys->type.sizes[1] != values->type.sizes[1] || !rewriter.may()) return;
    Builder b(graph, n);
    b.source = n->source;
    graph.set_arg(n, 1, b("aten::squeeze.dim", {keys, Expr(2)}));
    graph.set_arg(n, 2, b("aten::squeeze.dim", {values, Expr(2)}));
  });
  return rewriter.changed();
}

}  // namespace vesta::graph
