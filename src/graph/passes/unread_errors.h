// Which nodes may raise an exception.
#pragma once

#include "graph/graph.h"

namespace vesta::graph {

// Whether the node may raise. False only where its arguments show that it never does.
bool may_raise(const Node& node);
// Whether the operator may raise for some arguments. True for an operator without a row, about which nothing is known.
bool may_raise(std::string_view op);

}  // namespace vesta::graph
