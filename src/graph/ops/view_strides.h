// Strides of reshapes.
#pragma once

#include <optional>

#include "graph/ops/broadcast.h"

namespace vesta::graph {

// `sizes` with its one -1 replaced. UserError if the element counts differ.
Sizes infer_sizes(Guards& g, const IntList& sizes, const TensorType& t);

// at::detail::computeStride: the strides with which `sizes` can be seen without a copy, if it can.
std::optional<std::vector<Expr>> view_strides(Guards& g, const TensorType& t, std::span<const Expr> sizes);

// The element of a tensor of sizes `from` that has the row-major position of element `index` of sizes `to`. Divides
// only inside the groups of dimensions where the two shapes differ.
std::vector<Expr> reshape_index(std::span<const Expr> from, std::span<const Expr> to, std::span<const Expr> index);

}  // namespace vesta::graph
