// Zero tensors (aten::_efficientzerotensor): autograd's formulas take one where a tensor has no tangent. In eager their
// products are zero tensors again, whatever the other factor holds: 0 times infinity is 0, and not NaN. The trace
// records zeros, and remembers which ones are zero tensors.
#pragma once

#include "trace/operators/operator_table.h"

namespace vesta::trace {

void make_zero_tensor(Recorder& r, const Operator& op, torch::jit::Stack& stack);
// Whether the operator is a product with a zero tensor, or a quotient of one. If so, its result is on the stack.
bool gives_zero_tensor(Recorder& r, const Operator& op, torch::jit::Stack& stack);

}  // namespace vesta::trace
