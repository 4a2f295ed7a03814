// Building blocks of decompositions.
//
// A decomposition widens half types to their opmath first and rounds once at the end, as ATen's fused kernels do. It
// calls finish() for its results, which gives each the type of the result that it replaces.
#pragma once

#include <utility>

#include "graph/rules/broadcast.h"

namespace vesta::graph {

Value* cast(Builder& b, Value* v, DType t);
Value* opmath(Builder& b, Value* v);
// Casts each value to the type of the result it replaces.
std::vector<Value*> finish(Builder& b, const Node& node, std::vector<Value*> values);

// The tensor that the node is given as this argument, or nullptr.
Value* given(const Node& node, std::string_view name);
// from, from + 1, ..., to - 1: dimensions.
IntList range(size_t from, size_t to);
// A vector as a tensor of `ndim` dimensions that broadcasts along `dim`.
Value* along(Builder& b, Value* vector, size_t dim, size_t ndim);

// The two halves of x along the dimension, as views.
std::pair<Value*, Value*> halves(Builder& b, Value* x, Expr dim);

// Reductions over `dims` that keep the dimensions, in v's type.
Value* sum_keeping(Builder& b, Value* v, const IntList& dims);
Value* mean_keeping(Builder& b, Value* v, const IntList& dims);
Value* amax_keeping(Builder& b, Value* v, const IntList& dims);
// The same elements in row-major order with other sizes. It copies only where no view can show them.
Value* reshaped(Builder& b, Value* v, Sizes sizes);

}  // namespace vesta::graph
