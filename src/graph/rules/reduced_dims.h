// The dimensions that a reduction removes.
#pragma once

#include "graph/rules/broadcast.h"

namespace vesta::graph {

// Reads the argument `dim`: absent, None or an empty list mean all dimensions. The node is known to be valid.
std::vector<bool> reduced_dims(const NodeArgs& args);
bool keeps_dims(const NodeArgs& args);

// The same for a node that is being checked: throws UserError for a wrong or repeated dimension.
std::vector<bool> checked_reduced_dims(const NodeArgs& args, Guards& g);
// The type of what a reduction of tensor 0 gives, checked in the same way.
TensorType reduced(const NodeArgs& args, Guards& g, DType t);
// The number of elements that one result combines.
Expr reduced_count(const TensorType& x, const std::vector<bool>& gone);
// The reduced dimensions as a list argument.
IntList dim_list(const std::vector<bool>& gone);

}  // namespace vesta::graph
