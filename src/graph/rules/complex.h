// Pointwise operators on complex numbers: formulas over pairs of real scalars, so that loops and code generators know
// real types only. An operator of complex numbers without a formula here is an extern call.
#pragma once

#include <span>

#include "graph/graph.h"

namespace vesta::graph {

// A complex number, or a real one where `im` is undefined.
struct ScalarPair {
  ScalarRef re, im;
  bool complex() const { return im.id != UINT32_MAX; }
};

// Operands as for PointwiseBody. Each is a pair of the real type of its compute type; a real operand of an operator
// that computes in complex numbers has the imaginary part 0, as eager's conversion gives it.
using ComplexBody = ScalarPair (*)(ScalarBuilder& b, const NodeArgs& args, std::span<const ScalarPair> x);

// nullptr: no formula.
ComplexBody find_complex_body(const Node& node);

// True when an operand, a number or the result is complex.
bool is_complex_node(const Node& node);

}  // namespace vesta::graph
