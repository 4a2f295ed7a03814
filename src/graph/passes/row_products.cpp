// Writes aten::linear of one row, y = x w^T + b, as a sum over the products of each row of w with x. This arithmetic
// fuses with the nodes before and after it and reads w once at the speed of memory; a decode step of a language model
// consists of such products, while the libraries' matrix products are made for many rows. On a GPU, products of one row
// whose results are read elsewhere (queries, keys and values) become one sum over the rows of all weights: a kernel
// reads each row from the weight that has it.
//
// On a CPU the elements of each row of w must be neighbours. Measured there with AVX-512, one core, against the faster
// library: weights in caches are read at 85 GB/s instead of 50, from memory at 20 instead of 14, bfloat16 ones at 40
// instead of 24; but a weight of [in, out] from memory at 8 instead of 19.
#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"
#include "graph/rules/decompose.h"

namespace vesta::graph {
namespace {

constexpr size_t kMostJoined = 4;  // products that become one: a kernel has a loop for each

bool is_one_row(const Node* n, const PassContext& context) {
  if (!is_op(n, "aten::linear") || n->prepacked || !n->results[0]) return false;
  const TensorType &x = n->input(0)->type, &w = n->input(1)->type;
  if (context.device == DeviceType::CPU && (!context.computes_product || w.dim() != 2 || !w.strides[1].is_constant(1)))
    return false;
  return w.dim() == 2 && is_float(x.dtype) && x.device.type == context.device && w.device == x.device &&
         std::all_of(x.sizes.begin(), x.sizes.end() - 1, [](Expr e) { return e.is_constant(1); });
}

// A product whose weight and bias are graph inputs and whose results are read elsewhere.
bool may_join(const Node* n, const PassContext& context) {
  if (!is_one_row(n, context) || !n->input(1)->type.sizes[0].is_constant()) return false;
  const Value* bias = value_of(n->named().get("bias"));
  return !n->input(1)->producer && !(bias && bias->producer) && is_read_elsewhere(n->results[0]);
}

// n and the later products of the same row that may join it.
std::vector<Node*> joined(Node* n, const PassContext& context) {
  std::vector<Node*> out = {n};
  if (context.device == DeviceType::CPU || !may_join(n, context)) return out;
  const Value* x = n->input(0);
  for (Node* m : x->users) {
    const bool known = std::find(out.begin(), out.end(), m) != out.end();
    if (known || out.size() == kMostJoined || !may_join(m, context) || m->input(0) != x) continue;
    const TensorType &a = n->input(1)->type, &b = m->input(1)->type;
    if (a.dtype == b.dtype && a.sizes[1] == b.sizes[1]) out.push_back(m);
  }
  return out;
}

// One sum over the rows of all weights: a vector.
Value* products(Builder& b, const std::vector<Node*>& nodes) {
  Value* const x = nodes[0]->input(0);
  Value* row = opmath(b, reshaped(b, x, {x->type.sizes.back()}));
  ValueList weights;
  for (const Node* n : nodes) weights.push_back(n->input(1));
  Value* w = weights.size() == 1 ? weights[0] : b("aten::cat", {weights, Expr(0)});
  return sum_keeping(b, b("aten::mul.Tensor", {opmath(b, w), row}), IntList{1});
}

}  // namespace

bool is_read_elsewhere(const Value* v) {
  return std::any_of(v->users.begin(), v->users.end(), [](const Node* n) {
    if (n->op->family() != Family::View) return n->op->family() != Family::Pointwise;
    if (is_op(n, "aten::slice.Tensor")) return true;
    return std::any_of(n->results.begin(), n->results.end(), [](const Value* r) { return r && is_read_elsewhere(r); });
  });
}

bool kernel_computes(const Node& linear, const PassContext& context, Expr columns) {
  const TensorType &x = linear.input(0)->type, &w = linear.input(1)->type, &y = linear.results[0]->type;
  const auto constant = [](Expr e) { return e.is_constant(); };
  if (!context.computes_product || (y.dtype != DType::F16 && y.dtype != DType::BF16) || x.dim() < 2 ||
      !is_contiguous(x) || !is_contiguous(w) || !columns.is_constant() ||
      !std::all_of(x.sizes.begin(), x.sizes.end(), constant))
    return false;
  const int64_t all = numel(x).constant(), inner = x.sizes.back().constant();
  return inner > 0 && context.computes_product(y.dtype, all / inner, columns.constant(), inner);
}

bool write_row_products(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  for (Node *n = graph.first(), *next = nullptr; n; n = next) {
    next = n->next;
    if (!is_one_row(n, context)) continue;
    if (!rewriter.may()) break;
    const std::vector<Node*> nodes = joined(n, context);
    Builder b(graph, n);
    b.source = n->source;
    Value* const all = products(b, nodes);
    Expr begin = 0;
    for (Node* m : nodes) {
      const Expr rows = m->input(1)->type.sizes[0];
      Value* y = nodes.size() == 1 ? all : b("aten::slice.Tensor", {all, Expr(0), begin, begin + rows, Expr(1)});
      begin = begin + rows;
      y = reshaped(b, y, m->results[0]->type.sizes);
      if (Value* bias = value_of(m->named().get("bias"))) y = b("aten::add.Tensor", {y, opmath(b, bias)});
      rewriter.substitute(m->results[0], finish(b, *m, {y})[0]);
    }
    for (Node* m : nodes) {
      if (m == next) next = m->next;
      graph.erase(m);
    }
  }
  return rewriter.changed();
}

}  // namespace vesta::graph
