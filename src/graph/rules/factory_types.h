// Result types of operators that make tensors, filled with constants or with random numbers.
#pragma once

#include "graph/rules/broadcast.h"

namespace vesta::graph {

// The number that every element of the node's result is, if the operator's role is Fill, Zeros or Ones.
std::optional<Arg> fill_number(const Node& node);

// Reads the node's dtype, device and memory_format.
TensorType factory_type(const NodeArgs& args, const IntList& sizes, DType otherwise, Device device);
// For the *_like operators.
TensorType like_type(const NodeArgs& args, Guards& g);

}  // namespace vesta::graph
