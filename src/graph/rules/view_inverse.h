// Writes through views: each function returns `base` with `value` where the view shows it.
#pragma once

#include "graph/graph.h"

namespace vesta::graph {

Value* reshape_back(Builder& b, const NodeArgs& args, Value* base, Value* value);
Value* permute_back(Builder& b, const NodeArgs& args, Value* base, Value* value);
Value* slice_back(Builder& b, const NodeArgs& args, Value* base, Value* value);
Value* select_back(Builder& b, const NodeArgs& args, Value* base, Value* value);
Value* diagonal_back(Builder& b, const NodeArgs& args, Value* base, Value* value);
Value* alias_back(Builder& b, const NodeArgs& args, Value* base, Value* value);
Value* as_strided_back(Builder& b, const NodeArgs& args, Value* base, Value* value);
Value* view_as_real_back(Builder& b, const NodeArgs& args, Value* base, Value* value);
Value* view_as_complex_back(Builder& b, const NodeArgs& args, Value* base, Value* value);
Value* view_dtype_back(Builder& b, const NodeArgs& args, Value* base, Value* value);

// For permute, transpose.int and t: dimension i of the result is dimension order[i] of the tensor.
std::vector<int64_t> view_permutation(const NodeArgs& args);
// For the squeeze overloads: the dimensions that vanish.
std::vector<bool> squeezed_dims(const NodeArgs& args);

}  // namespace vesta::graph
