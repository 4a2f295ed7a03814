// Turns batch_norm(convolution(x, w, b)) in inference into one convolution whose weight and bias are prepacked
// constants. Per-channel factors are computed in float64. The weight is multiplied in the type that batch_norm computes
// in, by a factor that is rounded to that type as eager rounds it, in one pass over its memory. All weights and
// statistics must be Parameters.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool fold_batch_norm(Graph& graph, const PassContext& context);
}
