// The strides of a result that at::TensorIterator allocates.
#pragma once

#include "graph/rules/broadcast.h"

namespace vesta::graph {

// `operands` are the inputs in TensorIterator's order; `sizes` is the broadcast size. Numbers count as 0-d operands.
std::vector<Expr> iterator_strides(Guards& g, std::span<const Expr> sizes, std::span<const TensorType* const> operands);

// The strides of at::empty_like(t, Preserve): a dense tensor keeps its strides, another one gets those of an iterator
// over it alone.
std::vector<Expr> preserved_strides(Guards& g, const TensorType& t);
// The type of that tensor.
TensorType preserved(Guards& g, const TensorType& t);

}  // namespace vesta::graph
