// Turns aten::convolution, with the activation or the addition that follows it, into one call of oneDNN's fused
// convolution (library.h). For inference on the CPU only.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool use_library_convolution(Graph& graph, const PassContext& context);
}
