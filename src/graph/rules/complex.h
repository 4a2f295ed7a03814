// Pointwise operators on complex numbers, which loops and code generators see as pairs of real scalars. An operator
// whose row has no complex body is an extern call for complex numbers.
#pragma once

#include "graph/graph.h"

namespace vesta::graph {

// nullptr: no formula for these arguments.
ComplexBody find_complex_body(const Node& node);

// True when an operand, a number or the result is complex.
bool is_complex_node(const Node& node);

}  // namespace vesta::graph
