// Strides and index maps of views.
#pragma once

#include "graph/rules/broadcast.h"

namespace vesta::graph {

// `sizes` with its one -1 replaced. Throws UserError if the element counts differ.
Sizes infer_sizes(Guards& g, const IntList& sizes, const TensorType& t);

// at::detail::computeStride: the strides by which `sizes` can be shown without a copy, if there are any.
std::optional<std::vector<Expr>> view_strides(Guards& g, const TensorType& t, std::span<const Expr> sizes);

// The index, in a tensor of sizes `from`, of the element whose row-major position is that of element `index` of sizes
// `to`. It divides only inside the groups of dimensions in which the two shapes differ.
std::vector<Expr> reshape_index(std::span<const Expr> from, std::span<const Expr> to, std::span<const Expr> index);

// For permute, transpose.int and t: dimension i of the result is dimension order[i] of the tensor.
std::vector<int64_t> view_permutation(const NodeArgs& args);

// The arguments of Tensor.diagonal and diagonal_scatter on a tensor of `ndim` dimensions. Element k is at (k -
// min(offset, 0), k + max(offset, 0)) of dim1 and dim2.
struct Diagonal {
  int64_t dim1, dim2;
  Expr offset;
};
Diagonal diagonal_of(const NodeArgs& args, size_t ndim);

}  // namespace vesta::graph
