// Building blocks of decompositions.
//
// Inside a decomposition half types are widened to their opmath first and rounded once at the end, as ATen's fused
// kernels do. `finish` gives each result the type of the node it replaces.
#pragma once

#include <initializer_list>
#include <vector>

#include "graph/rules/broadcast.h"

namespace vesta::graph {

Value* cast(Builder& b, Value* v, DType t);
Value* opmath(Builder& b, Value* v);
// v as the type its result is rounded to, where that is not v's own (None: v's own).
std::vector<Value*> finish(Builder& b, const Node& node, std::vector<Value*> values);

// Reductions over `dims` that keep them, in v's type.
Value* sum_keeping(Builder& b, Value* v, const IntList& dims);
Value* mean_keeping(Builder& b, Value* v, const IntList& dims);
Value* amax_keeping(Builder& b, Value* v, const IntList& dims);
// The same elements in row-major order under other sizes; copies only where no view can show them.
Value* reshaped(Builder& b, Value* v, Sizes sizes);

}  // namespace vesta::graph
