// Removes nodes whose results are not read.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool remove_dead_code(Graph& graph, const PassContext& context);
}
