// Pooling operators whose kernels cannot run on traced tensors.
#include "graph/rules/broadcast.h"
#include "trace/ops/rows.h"

namespace vesta::trace {
namespace {

// ATen's kernel reads memory below the dispatcher. The differentiable form does not, and it gives the same numbers.
void max_pool1d(Recorder& r, const Operator& op, Stack& stack) {
  if (graph::is_empty(r.guards(), r.type_of(argument(op, stack, 0).toTensor()).sizes))
    VESTA_UNSUPPORTED("max_pool1d does not support empty tensors");
  static const Operator* with_indices = find_operator("aten::max_pool1d_with_indices", "");
  Stack inner(stack.end() - static_cast<std::ptrdiff_t>(op.arg_count), stack.end());
  inner[0] = inner[0].toTensor().contiguous();
  with_indices->handle.callBoxed(inner);
  reply(op, stack, inner.at(0));
}

constexpr OperatorRow kPoolingRows[] = {
    {"aten::max_pool1d", max_pool1d},
    {.name = "aten::max_unpool2d", .meta_differs = true},
};

}  // namespace

std::span<const OperatorRow> pooling_rows() { return kPoolingRows; }

}  // namespace vesta::trace
