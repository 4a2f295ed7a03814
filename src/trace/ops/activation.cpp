// Activations that draw random numbers in training.
#include <ATen/ops/leaky_relu.h>

#include "trace/ops/rows.h"

namespace vesta::trace {
namespace {

// Outside of training it draws nothing, and the noise argument is not read.
void rrelu(Recorder& r, const Operator& op, Stack& stack) {
  const double lower = argument(op, stack, 1).toScalar().toDouble();
  const double upper = argument(op, stack, 2).toScalar().toDouble();
  if (argument(op, stack, 3).toBool() || !(lower <= upper)) return decompose(r, op, stack);
  reply(op, stack, at::leaky_relu(argument(op, stack, 0).toTensor(), (lower + upper) / 2).contiguous());
}

constexpr OperatorRow kActivationRows[] = {
    {"aten::rrelu", rrelu},
};

}  // namespace

std::span<const OperatorRow> activation_rows() { return kActivationRows; }

}  // namespace vesta::trace
