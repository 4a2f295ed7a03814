// Keeps the exceptions of computations whose results are not read: eager raises them, although dead code is removed.
#pragma once

#include <string_view>

#include "graph/passes/pass.h"

namespace vesta::graph {

// Marks the nodes that check the values they are given and whose results are not needed; they stay in the graph.
bool keep_unread_errors(Graph& graph, const PassContext& context);

// Whether the node may raise. False only where its arguments show that it never does.
bool may_raise(const Node& node);
// Whether the operator may raise for some arguments. True for an operator without a row, about which nothing is known.
bool may_raise(std::string_view op);

}  // namespace vesta::graph
