// Writes attention with one query per head (a decode step over a cache of keys and values) as arithmetic, on a GPU:
// products of the query with the keys, a softmax, and the sum of the values with these weights, in F32, rounded once.
// The arithmetic fuses with the computation of the mask and with views of the cache, so keys that heads share are not
// repeated in memory, and every thread works on its own keys. The libraries' kernels share the work by queries, of
// which there is one here.
#include <algorithm>

#include "graph/passes/attention.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {
namespace {

// Bytes of the keys that all heads read, each head its own. Heads that share keys read them once each, from the GPU's
// cache. Above this limit, a kernel that reads them once for all of these heads is faster.
constexpr int64_t kMostBytes = 32 << 20;
// One block of threads walks over all keys. More keys are better shared by several blocks.
constexpr int64_t kMostKeys = 4096;

// The sizes of one call: query [batch, heads, 1, size], key [batch, shared, keys, size], value [batch, shared, keys,
// out]. Heads of one group, `heads / shared` neighbours, read the same keys.
struct Shape {
  Expr batch, shared, group, keys, size, out;
};

std::optional<Shape> shape_of(const Node* n, const PassContext& context) {
  if (n->op->role() != Role::Attention || n->prepacked || !n->results[0]) return std::nullopt;
  const TensorType &q = n->input(0)->type, &k = n->input(1)->type, &v = n->input(2)->type;
  for (const TensorType* t : {&q, &k, &v})
    if (t->dim() != 4 || !is_float(t->dtype) || t->dtype != q.dtype || t->device.type != context.device ||
        t->device != q.device)
      return std::nullopt;
  const Expr heads = q.sizes[1], shared = k.sizes[1];
  if (!q.sizes[2].is_constant(1) || q.sizes[3] != k.sizes[3] || k.sizes[0] != q.sizes[0] || v.sizes[0] != q.sizes[0] ||
      v.sizes[1] != shared || v.sizes[2] != k.sizes[2])
    return std::nullopt;
  Expr group = 1;
  if (heads != shared) {
    if (!heads.is_constant() || !shared.is_constant() || shared.is_constant(0) ||
        heads.constant() % shared.constant() != 0)
      return std::nullopt;
    group = heads.constant() / shared.constant();
  }
  const Shape s{q.sizes[0], shared, group, k.sizes[2], k.sizes[3], v.sizes[3]};
  if (!s.size.is_constant() || !s.out.is_constant()) return std::nullopt;
  for (Expr e : {s.batch, heads, s.keys, s.size, s.out})
    if (!provably_at_least(e, 1)) return std::nullopt;
  const int64_t most = std::max(s.size.constant(), s.out.constant());
  if (hint(s.keys) > kMostKeys) return std::nullopt;
  if (hint(s.batch) * hint(heads) * hint(s.keys) * most * element_size(q.dtype) > kMostBytes) return std::nullopt;
  return s;
}

// Whether only the first result of the call is used, and its mask is one that arithmetic can apply.
bool is_arithmetic(const Graph& graph, const Node& n, const Shape& s) {
  // With one query, backends differ in whether it sees the first key alone or all keys.
  if (!is_plain_attention(graph, n) || (n.named().boolean("is_causal") && !s.keys.is_constant(1))) return false;
  const Value* const mask = added_mask(n);
  if (!mask) return true;
  const TensorType& t = mask->type;
  return is_float(t.dtype) && t.device == n.input(0)->type.device && t.dim() >= 2 &&
         expands_to(t, Sizes{s.batch, s.shared * s.group, 1, s.keys});
}

// All tensors below are [batch, shared, group, keys, size], with dimensions of size 1 and views that repeat.
Value* attention(Builder& b, const Node& n, const Shape& s) {
  const Sizes all = {s.batch, s.shared, s.group, s.keys, s.out};
  Value* q = opmath(b, reshaped(b, n.input(0), {s.batch, s.shared, s.group, 1, s.size}));
  Value* k = opmath(b, b("aten::unsqueeze", {n.input(1), Expr(2)}));
  Value* v = opmath(b, b("aten::unsqueeze", {n.input(2), Expr(2)}));
  Value* scores = sum_keeping(b, b("aten::mul.Tensor", {q, k}), IntList{4});
  scores = b("aten::mul.Scalar", {scores, attention_scale(n, s.size.constant())});
  if (Value* mask = added_mask(n)) {
    mask = b("aten::expand", {mask, IntList{s.batch, s.shared * s.group, 1, s.keys}});
    mask = reshaped(b, mask, {s.batch, s.shared, s.group, s.keys, 1});
    scores = b("aten::add.Tensor", {scores, opmath(b, mask)});
  }
  // Each column of the values computes the maximum and the sum by itself. They are scalars of loops that run anyway, so
  // they need no kernel of their own.
  scores = b("aten::expand", {scores, IntList(all.begin(), all.end())});
  const SoftmaxParts softmax = softmax_parts(b, scores, 3, /*masked=*/true);
  Value* weighted = sum_keeping(b, b("aten::mul.Tensor", {softmax.powers, v}), {3});
  return reshaped(b, b("aten::div.Tensor", {weighted, softmax.total}), n.results[0]->type.sizes);
}

}  // namespace

bool write_one_query_attention(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  for (Node *n = graph.first(), *next = nullptr; n; n = next) {
    next = n->next;
    const std::optional<Shape> s = shape_of(n, context);
    if (!s || !is_arithmetic(graph, *n, *s)) continue;
    if (!rewriter.may()) break;
    Builder b(graph, n);
    b.source = n->source;
    std::vector<Value*> results(n->results.size(), nullptr);
    results[0] = attention(b, *n, *s);
    rewriter.substitute(n->results[0], finish(b, *n, std::move(results))[0]);
    graph.erase(n);
  }
  return rewriter.changed();
}

}  // namespace vesta::graph
