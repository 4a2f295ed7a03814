// Strides of reshapes.
#pragma once

#include <optional>

#include "graph/rules/broadcast.h"

namespace vesta::graph {

// `sizes` with its one -1 replaced. UserError if the element counts differ.
Sizes infer_sizes(Guards& g, const IntList& sizes, const TensorType& t);

// at::detail::computeStride: the strides with which `sizes` can be seen without a copy, if it can.
std::optional<std::vector<Expr>> view_strides(Guards& g, const TensorType& t, std::span<const Expr> sizes);

// The element of a tensor of sizes `from` that has the row-major position of element `index` of sizes `to`. Divides
// only inside the groups of dimensions where the two shapes differ.
std::vector<Expr> reshape_index(std::span<const Expr> from, std::span<const Expr> to, std::span<const Expr> index);

// The arguments of Tensor.diagonal, which diagonal_scatter has too, on a tensor of `ndim` dimensions. Element k is at
// (k - min(offset, 0), k + max(offset, 0)) of dim1 and dim2.
struct Diagonal {
  int64_t dim1, dim2;
  Expr offset;
};
Diagonal diagonal_of(const NodeArgs& args, size_t ndim);

}  // namespace vesta::graph
