// The passes, in the order of their table (pass_table.cpp).
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {

// Removes nodes whose results are not read.
bool remove_dead_code(Graph& graph, const PassContext& context);

// Keeps the exceptions of computations whose results are not read: eager raises them, although dead code is removed.
// Marks the nodes that check the values they are given and whose results are not needed; they stay in the graph.
bool keep_unread_errors(Graph& graph, const PassContext& context);

// Replaces size symbols by what the guards say they equal: a constant, or an expression of other symbols. Types that
// are equal by a guard are then written alike, which decompositions and fusion need.
bool use_known_sizes(Graph& graph, const PassContext& context);

// Folds constants by metadata alone: a tensor that is one number throughout (uniform.h) stays so through casts, views,
// copies and arithmetic, and becomes aten::full. The pass never evaluates a tensor.
bool fold_constants(Graph& graph, const PassContext& context);

// Applies algebraic identities that keep every bit of an IEEE result: x*1, x/1, x-0, integer x+0, -(-x), casts to the
// same type or through a wider one, where(c, x, x), copies of values that no other node writes. The pass may not apply
// x + 0.0, which turns -0.0 into 0.0 (x + -0.0 does not).
bool apply_identities(Graph& graph, const PassContext& context);

// Shortens chains of views: reshapes of reshapes, permutations of permutations. Drops views that show their tensor
// unchanged. Writes t and transpose as permute, so that later passes match one form.
bool canonicalise_views(Graph& graph, const PassContext& context);

// Keeps only the first of nodes with equal operator, arguments and types. Random nodes and nodes with effects stay.
bool merge_subexpressions(Graph& graph, const PassContext& context);

// Writes every product with a 2-D right side as aten::linear(x, w, b): addmm, mm, and the reshapes around them that
// only flatten and restore the leading dimensions. Later passes then match one form, for all dtypes and devices.
bool recognise_linear(Graph& graph, const PassContext& context);

// Turns aten::linear, with the activation or the addition that follows it, into one call of oneDNN's fused linear
// operator (library.h) on plain weights. For inference on the CPU only.
bool use_library_linear(Graph& graph, const PassContext& context);

// Turns batch_norm(convolution(x, w, b)) in inference into one convolution whose weight and bias are prepacked
// constants. Per-channel factors are computed in float64. The weight is multiplied in the type that batch_norm computes
// in, by a factor that is rounded to that type as eager rounds it, in one pass over its memory. All weights and
// statistics must be Parameters.
bool fold_batch_norm(Graph& graph, const PassContext& context);

// Runs chains of convolutions in channels-last, the order that oneDNN computes in. Values inside a chain change their
// strides; copies stand at its edges only. Graph outputs keep eager's strides.
//
// Measured (float32, two cores): a 1x1 convolution takes 0.29 ms instead of 0.49, a depthwise 5x5 one 0.07 instead of
// 0.14, a 3x3 one about the same, a bfloat16 one half. Below three convolutions the copies at the edges cost as much as
// the chain gains.
bool use_channels_last(Graph& graph, const PassContext& context);

// Turns aten::convolution, with the activation or the addition that follows it, into one call of oneDNN's fused
// convolution (library.h). For inference on the CPU only.
bool use_library_convolution(Graph& graph, const PassContext& context);

// Packs convolution weights once, in the order that oneDNN's chosen kernel reads them: prepacked constants that only
// oneDNN can read. Options::packed_weights bounds their bytes.
//
// Measured (float32, channels-last, two cores): a 3x3 convolution of 256 channels takes 0.52 ms instead of 0.80, a 1x1
// one a tenth less, a bfloat16 3x3 one 0.31 instead of 0.49.
bool pack_weights(Graph& graph, const PassContext& context);

// Writes aten::linear of one row, y = x w^T + b, as a sum over the products of each row of w with x, on a GPU. This
// arithmetic fuses with the nodes before and after it and reads w once at the speed of memory; a decode step of a
// language model consists of such products, while the libraries' matrix products are made for many rows. Products of
// one row whose results are read elsewhere (queries, keys and values) become one sum over the rows of all weights: a
// kernel reads each row from the weight that has it.
bool write_row_products(Graph& graph, const PassContext& context);

// Writes attention with one query per head (a decode step over a cache of keys and values) as arithmetic, on a GPU:
// products of the query with the keys, a softmax, and the sum of the values with these weights, in F32, rounded once.
// The arithmetic fuses with the computation of the mask and with views of the cache, so keys that heads share are not
// repeated in memory, and every thread works on its own keys. The libraries' kernels share the work by queries, of
// which there is one here.
bool write_one_query_attention(Graph& graph, const PassContext& context);

// Joins an activation to the product with a bias before it, on a GPU: aten::_addmm_activation, which ATen runs as one
// cuBLASLt call that applies relu or gelu to its sums before they are rounded and stored.
bool use_gemm_epilogue(Graph& graph, const PassContext& context);

// Replaces each node by the simpler nodes that its row's decomposition emits, until no decomposition is left. It runs
// after the passes that recognize library operators. A decomposition returns no nodes where the whole operator is best
// as it is.
bool decompose_composites(Graph& graph, const PassContext& context);

}  // namespace vesta::graph
