// Folds constants by metadata alone: a tensor that is one number throughout (uniform.h) stays so through casts, views,
// copies and arithmetic, and becomes aten::full. The pass never evaluates a tensor.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool fold_constants(Graph& graph, const PassContext& context);
}
