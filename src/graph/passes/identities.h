// Applies algebraic identities that keep every bit of an IEEE result: x*1, x/1, x-0, integer x+0, -(-x), casts to the
// same type or through a wider one, where(c, x, x), copies of values that no other node writes. The pass may not apply
// x + 0.0, which turns -0.0 into 0.0 (x + -0.0 does not).
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool apply_identities(Graph& graph, const PassContext& context);
}
