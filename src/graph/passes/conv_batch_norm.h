// batch_norm(convolution(x, w, b)) in inference becomes one convolution with a folded weight and bias: derived
// constants. What a channel has one of is computed in float64; the weight is multiplied in the type that batch_norm
// computes in, by a factor rounded to it as eager rounds it, in one pass over its memory. Needs all of the weights and
// statistics to be Parameters.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool fold_batch_norm(Graph& graph, const PassContext& context);
}
