// Tensors that are one number throughout, known while compiling: full, zeros, ones, scalar_tensor and casts of these.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace vesta::graph {

struct Uniform {
  Arg number;                // bool, Expr, double or complex
  DType dtype = DType::F32;  // of the tensor: the number is converted to it
  // The element's value when it is real, constant and exact as a double.
  std::optional<double> real() const;
};

std::optional<Uniform> uniform_of(const Value* v);
// v rounded to t as a conversion from double to t does; nullopt for types without such numbers.
std::optional<double> rounded_to(DType t, double v);

}  // namespace vesta::graph
