// batch_norm(convolution(x, w, b)) in inference becomes one convolution with a folded weight and bias: derived
// constants, computed in float64 so that folding adds one rounding. Needs all of the weights and statistics to be
// Parameters.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool fold_batch_norm(Graph& graph, const PassContext& context);
}
