// Broadcasting, dimensions and contiguity with symbolic sizes. Every answer that is not provable becomes a guard.
#pragma once

#include "graph/graph.h"

namespace vesta::graph {

using Sizes = std::vector<Expr>;

// The common size of two shapes. Throws UserError if they do not broadcast.
Sizes broadcast(Guards& g, std::span<const Expr> a, std::span<const Expr> b);

// Whether two shapes have as many dimensions and equal sizes.
bool same_sizes(Guards& g, std::span<const Expr> a, std::span<const Expr> b);

// Resolves negative dimensions as Python does; a 0-d tensor has dimensions 0 and -1. Throws UserError out of range.
int64_t wrap_dim(Guards& g, Expr dim, size_t ndim);
std::vector<int64_t> wrap_dims(Guards& g, const IntList& dims, size_t ndim);
// For a node of a graph, whose dimensions are constant and in range.
int64_t wrap_dim(Expr dim, size_t ndim);

Expr product(std::span<const Expr> sizes);

// at::Tensor::is_contiguous(format) and is_non_overlapping_and_dense() as eager would answer.
bool is_contiguous(Guards& g, const TensorType& t, MemoryFormat format = MemoryFormat::Contiguous);
bool is_dense(Guards& g, const TensorType& t);
bool is_empty(Guards& g, std::span<const Expr> sizes);
// Decides, by guards, whether sizes that are 0 for some value of the symbols (s0 - 2) are 0, because the strides of an
// empty tensor are not products of its sizes. `fresh`: the strides were chosen for the sizes, not taken from another
// tensor.
void decide_empty_sizes(Guards& g, TensorType& t, bool fresh);
// at::Tensor::suggest_memory_format().
MemoryFormat suggest_memory_format(Guards& g, const TensorType& t);

std::vector<Expr> format_strides(std::span<const Expr> sizes, MemoryFormat format);
TensorType contiguous_like(const TensorType& t, Sizes sizes);
TensorType contiguous_like(const TensorType& t, Sizes sizes, DType dtype);
TensorType in_format(const TensorType& t, Sizes sizes, MemoryFormat format);

}  // namespace vesta::graph
