// A copy of a graph that shares nothing with it: another thread may rewrite either of them.
#pragma once

#include <memory>

#include "graph/graph.h"

namespace vesta::graph {

std::unique_ptr<Graph> copy(const Graph& graph);

}  // namespace vesta::graph
