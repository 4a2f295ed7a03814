// Tensors that hold one number throughout, which is known at compile time: full, zeros, ones, scalar_tensor.
#pragma once

#include "graph/graph.h"

namespace vesta::graph {

struct Uniform {
  Arg number;                // bool, Expr, double or complex
  DType dtype = DType::F32;  // of the tensor: the number is converted to it
  // The element's value when it is real, constant and exact as a double.
  std::optional<double> real() const;
};

std::optional<Uniform> uniform_of(const Value* v);
// v rounded to t as a conversion from double to t rounds it; nullopt for types without such numbers.
std::optional<double> rounded_to(DType t, double v);

}  // namespace vesta::graph
