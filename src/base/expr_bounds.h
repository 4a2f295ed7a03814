// Facts about expressions: constant bounds, and proofs of inequalities. A fact is given only if it holds for every
// value of the symbols.
#pragma once

#include "base/expr.h"

namespace vesta::detail {

// Fills known_lower and known_upper of a node whose operands already have theirs.
void compute_bounds(ExprNode& node);

}  // namespace vesta::detail
