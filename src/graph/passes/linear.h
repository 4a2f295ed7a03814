// Writes every product with a 2-D right side as aten::linear(x, w, b): addmm, mm, and the reshapes around them that
// only flatten and restore the leading dimensions. Later passes then match one form, for all dtypes and devices.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool recognise_linear(Graph& graph, const PassContext& context);
}
