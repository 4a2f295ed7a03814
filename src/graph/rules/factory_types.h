// The types of factories, for constants and random numbers alike.
#pragma once

#include <optional>

#include "graph/rules/broadcast.h"

namespace vesta::graph {

// The number that every element of the node's result is, where the operator's role says so (Fill, Zeros, Ones).
std::optional<Arg> fill_number(const Node& node);

// Reads dtype, device and memory_format of the node.
TensorType factory_type(const NodeArgs& args, const IntList& sizes, DType otherwise, Device device);
// Of the *_like family.
TensorType like_type(const NodeArgs& args, Guards& g);

}  // namespace vesta::graph
