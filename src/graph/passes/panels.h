// Weights in panels, as the tiles of a product's kernel read them (loops/register_product.h).
#pragma once

#include "graph/graph.h"
#include "graph/passes/pass.h"

namespace vesta::graph {

// How many bytes of weights may be laid out once for kernels of ours. Options::packed_weights bounds the copies;
// without it, they take at most 512 MiB on a CPU, and there are none on a GPU.
int64_t most_packed(const PassContext& context);
// How many of these are left.
int64_t panel_budget(const Graph& graph, const PassContext& context);

// Whether a CPU's kernel reads all elements of a row of this type and size in whole steps: BF16 are read in pairs
// (loops/register_product.h).
bool has_whole_steps(DType type, Expr elements);

// The bytes of a weight in panels of so many rows. The last one is filled up with zeros.
int64_t panel_bytes(const TensorType& weight, int64_t panel);
// A constant weight in panels, computed once: vesta::in_panels.
Value* in_panels(Builder& b, Value* weight, int64_t panel);
// The argument `columns` of vesta::packed_linear for it.
Arg columns_of(const TensorType& weight, int64_t panel);

}  // namespace vesta::graph
