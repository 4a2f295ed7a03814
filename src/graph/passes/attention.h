// Functions that several passes use to replace calls of attention operators by arithmetic.
#pragma once

#include "graph/passes/pass.h"
#include "graph/rules/decompose.h"

namespace vesta::graph {

// Whether a call of an attention operator draws nothing at random and only its first result is used.
bool is_plain_attention(const Graph& graph, const Node& attention);
// The mask that the call adds to the scores; nullptr: it has none.
Value* added_mask(const Node& attention);
// Whether an expand can show x with these sizes.
bool expands_to(const TensorType& x, std::span<const Expr> sizes);
// The program's scale, or 1 / sqrt(size of a head).
double attention_scale(const Node& attention, int64_t size);

// A softmax whose division is left to the caller: exp(scores - their maximum) over this dimension, the sum of that, and
// the maximum. The sum and the maximum keep the dimension. If all keys of a query are masked, its scores are -inf. Then
// its powers and its maximum are 0 and its total is 1, as in ATen's kernels. `masked`: there may be such queries.
struct SoftmaxParts {
  Value *powers = nullptr, *total = nullptr, *most = nullptr;
};
SoftmaxParts softmax_parts(Builder& b, Value* scores, int64_t dim, bool masked);

// For v [batch, shared * group, keys, size], which repeats each of the `shared` heads `group` times (repeat_kv in
// models with grouped-query attention): the tensor [batch, shared, 1, keys, size] that it repeats. nullptr: v repeats
// nothing.
Value* repeated_heads(const Value* v);

}  // namespace vesta::graph
