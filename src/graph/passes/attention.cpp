#include "graph/passes/attention.h"

#include <cmath>
#include <limits>

#include "graph/passes/rewriter.h"

namespace vesta::graph {

namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();
}  // namespace

bool is_plain_attention(const Graph& graph, const Node& n) {
  if (n.named().number("dropout_p") != 0) return false;
  for (size_t i = 1; i < n.results.size(); ++i)
    if (n.results[i] && graph.is_used(n.results[i])) return false;
  return true;
}

Value* added_mask(const Node& n) {
  const NodeArgs args = n.named();
  for (const char* const name : {"attn_bias", "attn_mask"})
    if (args.schema().index_of(name) >= 0) return value_of(args.get(name));
  return nullptr;
}

bool expands_to(const TensorType& x, std::span<const Expr> sizes) {
  if (x.dim() > sizes.size()) return false;
  const size_t before = sizes.size() - x.dim();
  for (size_t d = 0; d < x.dim(); ++d)
    if (!x.sizes[d].is_constant(1) && x.sizes[d] != sizes[before + d]) return false;
  return true;
}

double attention_scale(const Node& n, int64_t size) {
  const NodeArgs args = n.named();
  return is_none(args.get("scale")) ? 1 / std::sqrt(static_cast<double>(size)) : args.number("scale");
}

SoftmaxParts softmax_parts(Builder& b, Value* scores, int64_t dim, bool masked) {
  Value* most = amax_keeping(b, scores, {dim});
  if (masked) most = b("aten::masked_fill.Scalar", {most, b("aten::eq.Scalar", {most, -kInfinity}), Expr(0)});
  Value* const powers = b("aten::exp", {b("aten::sub.Tensor", {scores, most})});
  Value* total = sum_keeping(b, powers, {dim});
  if (masked) total = b("aten::masked_fill.Scalar", {total, b("aten::eq.Scalar", {total, Expr(0)}), Expr(1)});
  return {powers, total, most};
}

Value* repeated_heads(const Value* v) {
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

}  // namespace vesta::graph
