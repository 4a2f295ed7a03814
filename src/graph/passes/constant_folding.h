// Computes on metadata: tensors that are one number throughout (uniform.h) stay so through casts, views, copies and
// arithmetic, and become aten::full. No tensor is ever evaluated.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool fold_constants(Graph& graph, const PassContext& context);
}
