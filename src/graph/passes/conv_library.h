// aten::convolution, with the activation or the addition that follows, becomes one call of oneDNN's fused convolution
// (library.h). Inference on the CPU only.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool use_library_convolution(Graph& graph, const PassContext& context);
}
