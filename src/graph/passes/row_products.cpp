#include "graph/passes/row_products.h"

#include <algorithm>

#include "graph/ops/decompose.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {
namespace {

bool is_one_row(const Node* n, const PassContext& context) {
  if (!is_op(n, "aten::linear") || n->derived || !n->results[0]) return false;
  const TensorType &x = n->input(0)->type, &w = n->input(1)->type;
  return w.dim() == 2 && is_float(x.dtype) && x.device.type == context.device && w.device == x.device &&
         std::all_of(x.sizes.begin(), x.sizes.end() - 1, [](Expr e) { return e.is_constant(1); });
}

}  // namespace

bool write_row_products(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  for (Node *n = graph.first(), *next = nullptr; n; n = next) {
    next = n->next;
    if (!is_one_row(n, context)) continue;
    if (!rewriter.may()) break;
    Builder b(graph, n);
    b.source = n->source;
    Value* const x = n->input(0);
    Value* row = opmath(b, reshaped(b, x, {x->type.sizes.back()}));
    Value* y = sum_keeping(b, b("aten::mul.Tensor", {opmath(b, n->input(1)), row}), IntList{1});
    y = reshaped(b, y, n->results[0]->type.sizes);
    if (Value* bias = value_of(n->named().get("bias"))) y = b("aten::add.Tensor", {y, opmath(b, bias)});
    rewriter.substitute(n->results[0], finish(b, *n, {y})[0]);
    graph.erase(n);
  }
  return rewriter.changed();
}

}  // namespace vesta::graph
