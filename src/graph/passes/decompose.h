// Replaces each node by the simpler nodes that its row's decomposition emits, until no decomposition is left. It runs
// after the passes that recognize library operators. A decomposition returns no nodes where the whole operator is best
// as it is.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool decompose_composites(Graph& graph, const PassContext& context);
}
