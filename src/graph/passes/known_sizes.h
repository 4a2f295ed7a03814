// Puts what the guards say that a size symbol is in its place: a constant, or an expression of other symbols. Where
// types are equal by a guard they are equal as they are written then, which decompositions and fusion ask for.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool use_known_sizes(Graph& graph, const PassContext& context);
}
