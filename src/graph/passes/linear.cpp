// Writes every product with a 2-D right side as aten::linear(x, w, b): addmm, mm, and the reshapes around them that
// only flatten and restore the leading dimensions. Later passes then match one form, for all dtypes and devices.
#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"
#include "graph/rules/view_strides.h"

namespace vesta::graph {
namespace {

bool is_swap(const Node* n) {
  return n && n->op->role() == Role::Permute && view_permutation(n->named()) == std::vector<int64_t>{1, 0};
}

// A view as a tensor of other sizes, which its arguments name.
bool is_resize(const Node* n) { return n && n->op->role() == Role::Reshape && n->op->schema.index_of("size") >= 0; }

// w^T for a 2-D w: the operand of a transposition, or a new view.
Value* transposed(Graph& g, Node* before, Value* w) {
  if (is_swap(w->producer)) return w->producer->input(0);
  static const Op& permute = get_op("aten::permute");
  TensorType t = w->type;
  std::swap(t.sizes[0], t.sizes[1]);
  std::swap(t.strides[0], t.strides[1]);
  return g.add_node(permute, {w, IntList{1, 0}}, {t}, before)->results[0];
}

struct Product {
  Value* x = nullptr;
  Value* w = nullptr;  // [in, out]
  Value* bias = nullptr;
};

bool match(const Node* n, Product& p) {
  if (is_op(n, "aten::mm")) {
    p = {n->input(0), n->input(1), nullptr};
  } else if (is_op(n, "aten::addmm")) {
    const NodeArgs a = n->named();
    if (!is_one(a.get("beta")) || !is_one(a.get("alpha"))) return false;
    p = {n->input(1), n->input(2), n->input(0)};
    if (p.bias->type.dim() != 1 || p.bias->type.sizes[0] != n->results[0]->type.sizes[1]) return false;
  } else {
    return false;
  }
  return p.w->type.dim() == 2 && p.x->type.dim() >= 2 && p.x->type.dtype == p.w->type.dtype &&
         is_contiguous(n->results[0]->type);
}

// view(linear(view(x), w, b)) -> linear(x, w, b) where the views only flatten and restore x's leading dimensions.
void unflatten(Rewriter& r, Node* view) {
  Value* y = view->results[0];
  Value* flat = view->input(0);
  if (!is_op(flat, "aten::linear") || !has_one_use(r.graph(), flat) || flat->type.dim() != 2 || y->type.dim() < 2)
    return;
  const Node* linear = flat->producer;
  const Node* in = linear->input(0)->producer;
  if (!is_resize(in)) return;
  Value* x = in->input(0);
  const auto &xs = x->type.sizes, &ys = y->type.sizes;
  if (xs.size() != ys.size() || xs.back() != linear->input(0)->type.sizes[1] || ys.back() != flat->type.sizes[1])
    return;
  if (!std::equal(xs.begin(), xs.end() - 1, ys.begin()) || !is_contiguous(x->type) || !is_contiguous(y->type)) return;
  if (!r.may()) return;
  r.substitute(y, linear, *linear->op, {x, linear->args()[1], linear->args()[2]}, view);
}

}  // namespace

bool recognise_linear(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  const Op* linear = find_op("aten::linear");
  if (!linear || !find_op("aten::permute")) return false;
  graph.for_each_node([&](Node* n) {
    Product p;
    if (match(n, p)) {
      if (!rewriter.may()) return;
      rewriter.substitute(n->results[0], n, *linear,
                          {p.x, transposed(graph, n, p.w), p.bias ? Arg(p.bias) : Arg(None{})}, n);
      graph.erase(n);
    } else if (is_resize(n)) {
      unflatten(rewriter, n);
    }
  });
  return rewriter.changed();
}

}  // namespace vesta::graph
