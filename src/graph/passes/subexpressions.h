// Keeps only the first of nodes with equal operator, arguments and types. Random nodes and nodes with effects stay.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool merge_subexpressions(Graph& graph, const PassContext& context);
}
