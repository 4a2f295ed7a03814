// Bounds of the elements of an integer tensor, as far as the operators that made it show them.
#pragma once

#include "graph/graph.h"

namespace vesta::graph {

struct IntegerRange {
  Expr least, most;  // both are in the range
};

// nullopt: not known. Known are int64 numbers that arange counts, views of them, and the sums with an integer.
std::optional<IntegerRange> integer_range(const Value& v);

// Whether the node reads elements of a tensor at places that all lie inside of it, so that it raises no error.
bool reads_inside(const Node& node);

}  // namespace vesta::graph
