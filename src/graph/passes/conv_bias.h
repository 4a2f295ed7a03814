// Adds a convolution's bias in kernels of Vesta's. On a GPU, ATen adds it to cuDNN's result in a pass of its own; as a
// node of the graph, the addition fuses with what reads the result.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool separate_bias(Graph& graph, const PassContext& context);
}
