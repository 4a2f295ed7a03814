// Turns aten::linear, with the activation or the addition that follows it, into one call of oneDNN's fused linear
// operator (library.h) on plain weights. For inference on the CPU only.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool use_library_linear(Graph& graph, const PassContext& context);
}
