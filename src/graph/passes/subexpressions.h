// Of nodes with equal operator, arguments and types only the first is kept. Random nodes and those with effects stay.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool merge_subexpressions(Graph& graph, const PassContext& context);
}
