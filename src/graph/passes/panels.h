// Weights in panels, as the tiles of a product's kernel read them (loops/register_product.h).
#pragma once

#include "graph/graph.h"
#include "graph/passes/pass.h"

namespace vesta::graph {

// How many bytes of weights may still be laid out once for kernels of ours. Options::packed_weights bounds the copies;
// without it, they take at most 512 MiB.
int64_t panel_budget(const Graph& graph, const PassContext& context);

// A constant weight of the sizes [row, inner...] as [panel][inner...][row of the panel], computed once. `panel` divides
// its rows.
Value* in_panels(Builder& b, Value* weight, int64_t panel);

}  // namespace vesta::graph
