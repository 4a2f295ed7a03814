#include <algorithm>

#include "graph/passes/passes.h"

namespace vesta::graph {
namespace {

// The order: cheap clean-up, then what the library computes best as a whole, then decomposition of the rest and
// clean-up of the result. Dead nodes are removed before the next pass, because a dead product must not become a library
// call, which no later pass could remove.
// clang-format off: one row a line, in their order
constexpr PassRow kSweep = {"dead-code", remove_dead_code, {}, true};
constexpr PassRow kPasses[] = {
    {"unread-errors", keep_unread_errors, {}, true},
    kSweep,
    {"known-sizes", use_known_sizes, {}, true},
    {"constant-folding", fold_constants},
    {"identities", apply_identities},
    {"views", canonicalise_views, {}, true},
    {"subexpressions", merge_subexpressions, {}, true},
    {"linear", recognise_linear},
    {"summed-products", merge_summed_products},
    {"conv-batch-norm", fold_batch_norm},
    {"channels-last", use_channels_last},
    {"patch-products", write_patch_products, DeviceType::CPU},
    {"convolution-products", write_convolution_products, DeviceType::CPU},
    {"row-products", write_row_products},
    {"linear-library", use_library_linear, DeviceType::CPU},
    {"pack-columns", pack_columns, DeviceType::CPU},
    {"conv-bias", separate_bias, DeviceType::CUDA},
    {"conv-library", use_library_convolution, DeviceType::CPU},
    {"pack-weights", pack_weights, DeviceType::CPU},
    {"one-query-attention", write_one_query_attention, DeviceType::CUDA},
    {"attention-products", write_attention_products, DeviceType::CPU},
    {"grouped-attention", share_keys_of_groups, DeviceType::CUDA},
    {"wide-products", write_wide_products, DeviceType::CUDA},
    {"aligned-products", align_products, DeviceType::CUDA},
    {"gemm-epilogue", use_gemm_epilogue, DeviceType::CUDA},
    {"decompose", decompose_composites},
    {"decomposed-constants", fold_constants},
    {"decomposed-identities", apply_identities},
    {"decomposed-views", canonicalise_views},
    {"decomposed-subexpressions", merge_subexpressions},
};
// clang-format on

}  // namespace

std::span<const PassRow> pass_table() { return kPasses; }

void run_passes(Graph& graph, const PassContext& context, bool verify_each,
                const std::function<void(const PassRow&, bool before)>& observe) {
  PassContext counted = context;
  int64_t left = context.options.rewrite_limit;
  if (left >= 0) counted.may_rewrite = [&left, &context] { return left > 0 && context.may_rewrite() && left-- > 0; };
  if (verify_each) verify(graph);
  const bool sweep = !skips(context.options, kSweep.name);
  for (const PassRow& row : kPasses) {
    if (skips(context.options, row.name) || (row.device && *row.device != context.device)) continue;
    if (!context.options.kernels && !row.keeps_calls) continue;
    if (observe) observe(row, true);
    const bool changed = row.run(graph, counted);
    // Removal is not a rewrite: it does not count, and it cannot be wrong.
    if (changed && sweep) remove_dead_code(graph, {.options = context.options});
    if (changed && verify_each) verify(graph);
    if (observe) observe(row, false);
  }
}

}  // namespace vesta::graph
