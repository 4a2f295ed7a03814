// What forward-mode differentiation asks of the memory of a tensor and its tangent, which it keeps in the same layout.
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>

#include "trace/ops/rows.h"

namespace vesta::trace {
namespace {

// The elements of a tensor's memory, from its first one to its last one.
Expr extent(const graph::TensorType& type) {
  Expr out = 1;
  for (size_t d = 0; d < type.dim(); ++d) out = out + (type.sizes[d] - 1) * type.strides[d];
  return out;
}

// Of all its memory. An input's is what it shows: how much lies behind it is no fact of the program.
Expr extent_of_storage(Recorder& r, const at::Tensor& t) {
  const graph::TensorType &type = r.type_of(t), &stored = r.alias_of(t).storage->base->type;
  return convert_offset(extent(stored), stored.dtype, type.dtype);
}

void has_same_storage_numel(Recorder& r, const Operator& op, Stack& stack) {
  const Expr a = extent_of_storage(r, argument(op, stack, 0).toTensor());
  const Expr b = extent_of_storage(r, argument(op, stack, 1).toTensor());
  reply(op, stack, a == b || r.guards().equal(a, b));
}

// Zeros in the layout of the second tensor, for each index of the first dimensions of the first one.
void zeros_in_layout(Recorder&, const Operator& op, Stack& stack) {
  const at::Tensor self = argument(op, stack, 0).toTensor(), other = argument(op, stack, 1).toTensor();
  const auto batch = static_cast<size_t>(argument(op, stack, 2).toInt());
  std::vector<c10::SymInt> sizes = self.sym_sizes().slice(0, batch).vec(), strides(batch);
  c10::SymInt whole = 1;
  for (int64_t d = 0; d < other.dim(); ++d) whole = whole + (other.sym_size(d) - 1) * other.sym_stride(d);
  for (size_t d = batch; d-- > 0; whole = whole * sizes[d]) strides[d] = whole;
  sizes.insert(sizes.end(), other.sym_sizes().begin(), other.sym_sizes().end());
  if (other.sym_numel() == 0) return reply(op, stack, at::zeros_symint(sizes, self.options()));
  strides.insert(strides.end(), other.sym_strides().begin(), other.sym_strides().end());
  reply(op, stack, at::empty_strided_symint(sizes, strides, self.options()).zero_());
}

constexpr OperatorRow kForwardGradientRows[] = {
    {"aten::_has_same_storage_numel", has_same_storage_numel},
    {"aten::_new_zeros_with_same_feature_meta", zeros_in_layout},
};

}  // namespace

std::span<const OperatorRow> forward_gradient_rows() { return kForwardGradientRows; }

}  // namespace vesta::trace
