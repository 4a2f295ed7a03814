// The strides at::TensorIterator gives a result it allocates.
#pragma once

#include <span>

#include "graph/rules/broadcast.h"

namespace vesta::graph {

// `operands` in TensorIterator's order (inputs only), `sizes` the broadcast size. Numbers count as 0-d operands.
std::vector<Expr> iterator_strides(Guards& g, std::span<const Expr> sizes, std::span<const TensorType* const> operands);

// at::empty_like(t, Preserve) with other sizes equal: dense tensors keep their strides, others get those of an iterator
// over them alone.
std::vector<Expr> preserved_strides(Guards& g, const TensorType& t);

}  // namespace vesta::graph
