// Facts about expressions: constant bounds, and proofs of inequalities.
#pragma once

#include "base/expr.h"

namespace vesta::detail {

// Fills known_lower and known_upper of a node whose operands have theirs.
void compute_bounds(ExprNode& node);

}  // namespace vesta::detail
