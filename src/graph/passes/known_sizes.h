// Replaces size symbols by what the guards say they equal: a constant, or an expression of other symbols. Types that
// are equal by a guard are then written alike, which decompositions and fusion need.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool use_known_sizes(Graph& graph, const PassContext& context);
}
