// Tensors that hold one number throughout, which is known at compile time: full, zeros, ones, scalar_tensor.
#pragma once

#include "graph/graph.h"

namespace vesta::graph {

// The number of an argument, if it is real, constant and exact as a double: a Scalar, or a tensor that holds one number
// throughout, converted to the tensor's type.
std::optional<double> number_of(const Arg& a);
// v rounded to t as a conversion from double to t rounds it; nullopt for types without such numbers.
std::optional<double> rounded_to(DType t, double v);

}  // namespace vesta::graph
