// Bounds of the elements of an integer tensor, as far as the operators that made it show them.
#pragma once

#include "graph/graph.h"

namespace vesta::graph {

struct IntegerRange {
  Expr least, most;  // both are in the range
};

// nullopt: not known. Knows numbers counted by arange, constants, views of such tensors, and integers added to them.
std::optional<IntegerRange> integer_range(const Value& v);

// Whether the node reads elements of a tensor at places that all lie inside of it, so that it raises no error.
bool reads_inside(const Node& node);

}  // namespace vesta::graph
