#include "trace/operators/zero_tensors.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/_efficientzerotensor.h>
#include <ATen/ops/result_type.h>

#include "trace/operators/arguments.h"
#include "trace/operators/fallback.h"
#include "trace/recorder.h"

namespace vesta::trace {

using torch::jit::Stack;

void make_zero_tensor(Recorder& r, const Operator&, Stack& stack) {
  call(r, *find_operator("aten::zeros", ""), stack);
  r.zero_tensors.insert(r.value_of(stack.back().toTensor()));
}

bool gives_zero_tensor(Recorder& r, const Operator& op, Stack& stack) {
  if (r.zero_tensors.empty() || r.gradients) return false;
  static const c10::OperatorName product("aten::mul", "Tensor"), quotient("aten::div", "Tensor");
  const bool multiplies = op.handle.operator_name() == product;
  if (!multiplies && !(op.handle.operator_name() == quotient)) return false;
  const at::Tensor a = stack[stack.size() - 2].toTensor(), b = stack.back().toTensor();
  const auto is_zero = [&](const at::Tensor& t) { return traced(t) && r.zero_tensors.contains(r.value_of(t)); };
  const bool a_is_zero = is_zero(a), b_is_zero = is_zero(b);
  if (multiplies ? !a_is_zero && !b_is_zero : !a_is_zero || b_is_zero) return false;
  at::ScalarType dtype = at::result_type(a, b);
  if (!multiplies && c10::isIntegralType(dtype, /*includeBool=*/true))
    dtype = c10::typeMetaToScalarType(c10::get_default_dtype());
  const at::Tensor& other = a_is_zero ? b : a;
  const at::Tensor& placed = other.dim() == 0 && other.device().is_cpu() ? (a_is_zero ? a : b) : other;
  at::Tensor zero = at::_efficientzerotensor_symint(at::infer_size_symint(a.sym_sizes(), b.sym_sizes()),
                                                    placed.options().dtype(dtype));
  torch::jit::drop(stack, 2);
  stack.emplace_back(std::move(zero));
  return true;
}

}  // namespace vesta::trace
