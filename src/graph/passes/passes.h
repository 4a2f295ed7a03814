// All passes, in the order of their first rows (pass_table.cpp). The source of each begins with what it does.
#pragma once

#include <string_view>

#include "graph/passes/pass.h"

namespace vesta::graph {

struct Joint;

bool keep_unread_errors(Graph& graph, const PassContext& context);
bool remove_dead_code(Graph& graph, const PassContext& context);
bool use_known_sizes(Graph& graph, const PassContext& context);
bool fold_constants(Graph& graph, const PassContext& context);
bool apply_identities(Graph& graph, const PassContext& context);
bool canonicalise_views(Graph& graph, const PassContext& context);
bool merge_subexpressions(Graph& graph, const PassContext& context);
bool recognise_linear(Graph& graph, const PassContext& context);
bool merge_summed_products(Graph& graph, const PassContext& context);
bool use_library_linear(Graph& graph, const PassContext& context);
bool pack_columns(Graph& graph, const PassContext& context);
bool fold_batch_norm(Graph& graph, const PassContext& context);
bool use_channels_last(Graph& graph, const PassContext& context);
bool separate_bias(Graph& graph, const PassContext& context);
bool write_patch_products(Graph& graph, const PassContext& context);
bool write_convolution_products(Graph& graph, const PassContext& context);
bool use_library_convolution(Graph& graph, const PassContext& context);
bool pack_weights(Graph& graph, const PassContext& context);
bool write_row_products(Graph& graph, const PassContext& context);
bool write_one_query_attention(Graph& graph, const PassContext& context);
bool write_attention_products(Graph& graph, const PassContext& context);
bool share_keys_of_groups(Graph& graph, const PassContext& context);
bool write_wide_products(Graph& graph, const PassContext& context);
bool align_products(Graph& graph, const PassContext& context);
bool has_unaligned_products(const Graph& graph, const PassContext& context);  // which align_products() would pad
bool use_gemm_epilogue(Graph& graph, const PassContext& context);
bool decompose_composites(Graph& graph, const PassContext& context);

// Passes over joint graphs, and whether they would rewrite one. They may change where its backward pass begins.
bool trains_in_channels_last(const Graph& graph, const PassContext& context);
bool use_channels_last(Graph& graph, const PassContext& context, Joint& joint);
bool has_pointwise_convolutions(const Graph& graph, const PassContext& context);
bool write_pointwise_convolutions(Graph& graph, const PassContext& context, Joint& joint);
bool has_pointwise_gradients(const Graph& graph, const PassContext& context);
bool write_pointwise_gradients(Graph& graph, const PassContext& context, Joint& joint);
bool has_depthwise_gradients(const Graph& graph, const PassContext& context);
bool write_depthwise_gradients(Graph& graph, const PassContext& context, Joint& joint);

// Whether a kernel that computes v, a result of a product, cannot fuse with the nodes that read v. It computes one
// element at a time; these nodes also need other elements (halves of a rotation) or store them elsewhere (rows of a
// cache).
bool is_read_elsewhere(const Value* v);
// Whether a kernel computes this aten::linear if its weight has so many rows (PassContext::computes_product).
bool kernel_computes(const Node& linear, const PassContext& context, Expr columns);
// Whether a CPU's kernel computes this aten::linear with its sums in registers, so that no library call pays.
bool kernel_computes_in_registers(const Node& linear, const PassContext& context);
int64_t hint_rows(const Node& linear);  // the rows of its result, under the hints

// Whether the node may raise. False only where its arguments show that it never does.
bool may_raise(const Node& node);
// Whether the operator may raise for some arguments. True for an operator without a row, about which nothing is known.
bool may_raise(std::string_view op);

}  // namespace vesta::graph
