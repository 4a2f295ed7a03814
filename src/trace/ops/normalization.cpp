// Batch normalization, which writes running statistics although its schema does not say so.
#include "trace/ops/rows.h"

namespace vesta::trace {
namespace {

// In training it writes the running statistics, which the schema does not say.
void native_batch_norm(Recorder& r, const Operator& op, Stack& stack) {
  const bool training = argument(op, stack, 5).toBool();
  const c10::IValue mean = argument(op, stack, 3), variance = argument(op, stack, 4);
  const bool tracked = !mean.isNone() && mean.toTensor().defined();
  if (!training || !tracked) return record(r, op, stack);
  static const Operator* functional = find_operator("aten::_native_batch_norm_legit_functional", "");
  if (!functional) VESTA_UNSUPPORTED("batch_norm in training mode with this version of torch");
  Stack inner(stack.end() - static_cast<std::ptrdiff_t>(op.arg_count), stack.end());
  record(r, *functional, inner);
  write_tensor(r, mean.toTensor(), r.value_of(inner.at(3).toTensor()));
  write_tensor(r, variance.toTensor(), r.value_of(inner.at(4).toTensor()));
  torch::jit::drop(stack, op.arg_count);
  for (size_t i = 0; i < 3; ++i) stack.push_back(inner[i]);
}

void batch_norm(Recorder& r, const Operator& op, Stack& stack) {
  const bool training = argument(op, stack, 5).toBool();
  if (!training && !r.gradients && op.op && op.op->row) return record(r, op, stack);
  if (training && argument(op, stack, 0).toTensor().is_cuda()) {
    // ATen's kernels for this, such as cuDNN's, write running statistics, which their schema does not say.
    static const Operator* native = find_operator("aten::native_batch_norm", "");
    const auto first = stack.end() - static_cast<std::ptrdiff_t>(op.arg_count);
    Stack inner(first, first + static_cast<std::ptrdiff_t>(native->arg_count));
    if (r.gradients)
      native->handle.callBoxed(inner);  // autograd sees it
    else
      call(r, *native, inner);
    return reply(op, stack, inner.at(0));
  }
  op.handle.callBoxedForDispatchKey(op.composite, stack);
}

void cudnn_batch_norm(Recorder& r, const Operator& op, Stack& stack) {
  const c10::IValue mean = argument(op, stack, 3);
  const bool tracked = !mean.isNone() && mean.toTensor().defined();
  if (tracked && argument(op, stack, 5).toBool()) VESTA_UNSUPPORTED("{} writes running statistics", op.op->name);
  record(r, op, stack);
}

constexpr OperatorRow kNormalizationRows[] = {
    {"aten::native_batch_norm", native_batch_norm},
    {"aten::batch_norm", batch_norm},
    {"aten::cudnn_batch_norm", cudnn_batch_norm},
    {.name = "aten::_batch_norm_with_update_functional", .meta_differs = true},
};

}  // namespace

std::span<const OperatorRow> normalization_rows() { return kNormalizationRows; }

}  // namespace vesta::trace
