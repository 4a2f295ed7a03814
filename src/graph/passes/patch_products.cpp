// Replaces a convolution whose windows lie side by side by an aten::linear of these patches, where a kernel computes
// products on a CPU. The first layer of a vision transformer is such a convolution. The transformer reads its result as
// a sequence of pixels, and the rows of the product have this order, so no kernel transposes them. One kernel copies
// the patches.
#include "graph/passes/convolution.h"
#include "graph/passes/library.h"
#include "graph/passes/panels.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"
#include "graph/rules/decompose.h"
#include "graph/rules/view_strides.h"

namespace vesta::graph {
namespace {

// Whether each pixel of the image is in exactly one window.
bool are_patches(const Convolution& c) {
  const TensorType &x = c.x->type, &w = c.w->type;
  if (c.groups != 1 || !all_are(c.padding, 0) || !all_are(c.dilation, 1) || !is_contiguous(x) || !is_contiguous(w))
    return false;
  for (const size_t d : {0, 1}) {
    const Expr window = w.sizes[2 + d];
    if (!window.is_constant() || window.is_constant(1) || c.stride[d] != window ||
        !provably_divisible(x.sizes[2 + d], window.constant()))
      return false;
  }
  return true;
}

// The node that makes a sequence [image, pixel, channel] of the convolution's result, which nothing else reads.
// nullptr: there is none, or its readers may depend on the strides.
Node* sequence_of(const Graph& graph, const Node& convolution) {
  const Value* const y = convolution.results[0];
  const auto& sizes = y->type.sizes;
  if (!has_one_use(graph, y)) return nullptr;
  const Node* const flat = y->users[0];
  if (flat->op->role() != Role::Reshape || !has_one_use(graph, flat->results[0]) ||
      flat->results[0]->type.sizes != std::vector<Expr>{sizes[0], sizes[1], sizes[2] * sizes[3]})
    return nullptr;
  Node* const turned = flat->results[0]->users[0];
  if (turned->op->role() != Role::Permute || view_permutation(turned->named()) != std::vector<int64_t>{0, 2, 1} ||
      graph.is_result(turned->results[0]))
    return nullptr;
  for (const Node* user : turned->results[0]->users)
    if (user->op->family() == Family::View || user->op->family() == Family::Extern) return nullptr;
  return turned;
}

Value* product(Builder& b, const Node& n, const Convolution& c, bool constant) {
  const auto &x = c.x->type.sizes, &w = c.w->type.sizes, &y = n.results[0]->type.sizes;
  const Expr inner = w[1] * w[2] * w[3];
  Value* const parts = b("aten::view", {c.x, IntList{x[0], x[1], y[2], w[2], y[3], w[3]}});
  Value* const patches = b("aten::permute", {parts, IntList{0, 2, 4, 1, 3, 5}});
  Value* const rows = reshaped(b, patches, {x[0], y[2] * y[3], inner});
  Node* const weight = b.node("aten::view", {c.w, IntList{w[0], inner}});
  weight->prepacked = constant;
  return b("aten::linear", {rows, weight->results[0], n.named().get("bias")});
}

}  // namespace

bool write_patch_products(Graph& graph, const PassContext& context) {
  if (!context.inference || !context.computes_product) return false;
  Rewriter rewriter(graph, context);
  const std::vector<bool> parameters = parameters_of(graph);
  for (Node *n = graph.first(), *next = nullptr; n; n = next) {
    next = n->next;
    const std::optional<Convolution> c = as_channels_last_convolution(*n, context);
    if (!c || n->prepacked || !are_patches(*c)) continue;
    const DType type = c->x->type.dtype;
    const auto &w = c->w->type.sizes, &y = n->results[0]->type.sizes;
    Node* const sequence = sequence_of(graph, *n);
    const Expr inner = w[1] * w[2] * w[3];
    if (!sequence || !w[0].is_constant() || !inner.is_constant() || !has_whole_steps(type, inner) ||
        !context.computes_product(type, hint(y[0] * y[2] * y[3]), w[0].constant(), inner.constant()))
      continue;
    if (!rewriter.may()) break;
    Builder b(graph, n);
    b.source = n->source;
    rewriter.substitute(sequence->results[0], product(b, *n, *c, is_constant_weight(parameters, c->w)));
    Node* const flat = sequence->input(0)->producer;
    for (Node* done : {sequence, flat, n}) {
      if (done == next) next = next->next;
      graph.erase(done);
    }
  }
  return rewriter.changed();
}

}  // namespace vesta::graph
