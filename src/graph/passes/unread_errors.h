// What a program computes and does not read is removed, the exceptions of it are not: eager raises them.
#pragma once

#include <string_view>

#include "graph/passes/pass.h"

namespace vesta::graph {

// Marks the nodes that check the values they are given, and whose results nobody needs: they stay.
bool keep_unread_errors(Graph& graph, const PassContext& context);

// Such an operator, for arguments that do not show that it never raises.
bool may_raise(const Node& node);
// For some arguments. What an operator without a row does is not known.
bool may_raise(std::string_view op);

}  // namespace vesta::graph
