// Joins an activation to the product with a bias before it, on a GPU: aten::_addmm_activation, which ATen runs as one
// cuBLASLt call that applies relu or gelu to its sums before they are rounded and stored.
#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {
namespace {

bool is_more_than_one(Expr e) { return provably_less(1, e); }

// Whether ATen computes a linear of these operands, with the bias, by cuBLASLt.
bool is_library_product(const Node& n, const PassContext& context) {
  const Value *x = n.input(0), *w = n.input(1), *b = value_of(n.args()[2]);
  const TensorType& y = n.results[0]->type;
  if (!b || n.prepacked || y.device.type != context.device || (y.dtype != DType::F16 && y.dtype != DType::BF16))
    return false;
  for (const Value* v : {x, w, b})
    if (v->type.dtype != y.dtype || v->type.device != y.device) return false;
  if (x->type.dim() < 2 || w->type.dim() != 2 || b->type.dim() != 1 || !is_contiguous(b->type) || !is_contiguous(y))
    return false;
  // Leading dimensions are viewed as one, without a copy.
  if (x->type.dim() > 2 && !is_contiguous(x->type)) return false;
  return b->type.sizes[0] == w->type.sizes[0] && is_more_than_one(w->type.sizes[0]) &&
         is_more_than_one(w->type.sizes[1]) &&
         std::none_of(x->type.sizes.begin(), x->type.sizes.end(), [](Expr e) { return e.is_constant(0); });
}

// Whether a kernel of ours may read v. Such a kernel also applies the activation, at no cost.
bool is_read_by_kernel(const Value* v) {
  return std::any_of(v->users.begin(), v->users.end(), [](const Node* n) {
    if (n->op->family() != Family::View) return n->op->family() != Family::Extern;
    return std::any_of(n->results.begin(), n->results.end(), [](const Value* r) { return r && is_read_by_kernel(r); });
  });
}

// relu: false. gelu in its tanh form, the only form that the library has: true.
std::optional<bool> activation_of(const Node& n) {
  if (is_op(&n, "aten::relu")) return false;
  if (is_op(&n, "aten::gelu") && n.named().string("approximate") == "tanh") return true;
  return std::nullopt;
}

}  // namespace

bool use_gemm_epilogue(Graph& graph, const PassContext& context) {
  // The library does not round the product before the activation, as eager does.
  if (!context.inference || context.options.numerics == "eager") return false;
  Rewriter rewriter(graph, context);
  graph.for_each_node([&](Node* n) {
    const auto gelu = activation_of(*n);
    if (!gelu) return;
    Value* const y = n->results[0];
    Node* const product = n->input(0)->producer;
    if (!is_op(product, "aten::linear") || !has_one_use(graph, n->input(0)) || y->type != n->input(0)->type) return;
    const bool flat = product->input(0)->type.dim() == 2;
    if (!flat && rewriter.is_output(y)) return;  // an output may not be a view
    if (kernel_computes(*product, context, product->input(1)->type.sizes[0]) ||
        !is_library_product(*product, context) || is_read_by_kernel(y) || !rewriter.may())
      return;
    Builder b(graph, n);
    b.source = product->source;
    Value *x = product->input(0), *const w = product->input(1), *const bias = product->input(2);
    if (!flat) x = b("aten::view", {x, IntList{floordiv(numel(x->type), x->type.sizes.back()), x->type.sizes.back()}});
    Value* made =
        b("aten::_addmm_activation", {bias, x, b("aten::permute", {w, IntList{1, 0}})}, {{"use_gelu", *gelu}});
    if (!flat) made = b("aten::view", {made, IntList(y->type.sizes)});
    rewriter.substitute(y, made);
    graph.erase(n);
    graph.erase(product);
  });
  return rewriter.changed();
}

}  // namespace vesta::graph
