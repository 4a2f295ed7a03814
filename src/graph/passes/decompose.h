// Replaces each node whose row knows simpler nodes for it, until none is left. Runs after the passes that recognise
// library operators: a row answers with nothing where the whole operator is best as it is.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool decompose_composites(Graph& graph, const PassContext& context);
}
