// Zero tensors (aten::_efficientzerotensor). If a tensor has no tangent, autograd's formulas use a zero tensor as its
// tangent. In eager, a zero tensor times any other tensor is a zero tensor: 0 times infinity is 0, not NaN. The trace
// records aten::zeros for a zero tensor, and remembers that this value is one.
#pragma once

#include "trace/operators/operator_table.h"

namespace vesta::trace {

void make_zero_tensor(Recorder& r, const Operator& op, torch::jit::Stack& stack);
// Whether the operator is a product with a zero tensor, or a quotient of one. If so, its result is on the stack.
bool gives_zero_tensor(Recorder& r, const Operator& op, torch::jit::Stack& stack);

}  // namespace vesta::trace
