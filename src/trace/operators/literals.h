// Numbers in tensor positions: ATen gets x * 2 as mul.Tensor with a 0-d tensor made from the number.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace vesta::trace {

class Recorder;

// Replaces numbers in Tensor positions of `args`: by the operator's overload for numbers (`op` becomes that overload),
// or by a 0-d aten::full of a type that keeps the result type of the promotion.
void place_numbers(Recorder& r, const graph::Op*& op, std::vector<graph::Arg>& args);

}  // namespace vesta::trace
