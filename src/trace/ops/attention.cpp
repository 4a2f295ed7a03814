// Attention kernels of CUDA.
#include "trace/ops/rows.h"

namespace vesta::trace {
namespace {

// The integers among the results of CUDA's attention are sizes of its operands.
void attention(Recorder& r, const Operator& op, Stack& stack) {
  const Expr queries = r.type_of(argument(op, stack, 0).toTensor()).sizes.at(2);
  const Expr keys = r.type_of(argument(op, stack, 1).toTensor()).sizes.at(2);
  record(r, op, stack);
  const size_t first = stack.size() - op.return_count;
  stack[first + 4] = boxed(r, queries);
  stack[first + 5] = boxed(r, keys);
}

constexpr OperatorRow kRows[] = {
    {"aten::_scaled_dot_product_flash_attention", attention},
    {"aten::_scaled_dot_product_cudnn_attention", attention},
};

}  // namespace

std::span<const OperatorRow> attention_rows() { return kRows; }

}  // namespace vesta::trace
