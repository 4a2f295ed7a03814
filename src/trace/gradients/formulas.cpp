#include "trace/gradients/formulas.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include <typeinfo>

namespace vesta::trace {
namespace {

using torch::autograd::variable_list;
namespace generated = torch::autograd::generated;

template <class T>
const T* as(const torch::autograd::Node& node) {
  return typeid(node) == typeid(T) ? static_cast<const T*>(&node) : nullptr;
}

// All elements that equal the result have an equal share.
at::Tensor share_evenly(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& result) {
  const at::Tensor mask = (input == result).logical_or(input.isnan().logical_and(result.isnan()));
  return mask * (gradient / mask.sum());
}

template <class T>
std::optional<variable_list> evenly(const NodePointer& node, const variable_list& gradients) {
  const T* const n = as<T>(*node);
  if (!n) return std::nullopt;
  return variable_list{share_evenly(gradients.at(0), n->self_.unpack(), n->result_.unpack(node))};
}

// The product of all other elements. If one of these is zero, the formula multiplies by it, so that second derivatives
// are right; if several are zero, the product is 0. The gradient of an infinite element is NaN, as in eager where no
// element is zero.
at::Tensor product_of_others(const at::Tensor& gradient, const at::Tensor& input, int64_t dim) {
  if (input.sym_numel() == 0) return at::zeros_like(input);
  if (input.sym_size(dim) == 1) return gradient;
  const at::Tensor zero = input == 0;
  const at::Tensor factors = input.masked_fill(zero, 1);
  const at::Tensor zeros = input.masked_fill(zero.logical_not(), 0);
  const at::Tensor is_zero = zero.to(c10::toRealValueType(input.scalar_type()));
  const at::Tensor others = is_zero.sum(dim, true) - is_zero;
  const at::Tensor their_product = at::where(others == 0, 1, at::where(others == 1, zeros.sum(dim, true) - zeros, 0));
  return gradient * (factors.prod(dim, true) / factors * their_product).conj();
}

}  // namespace

std::optional<variable_list> derivative(const NodePointer& node, const variable_list& gradients) {
  if (auto found = evenly<generated::MaxBackward1>(node, gradients)) return found;
  if (auto found = evenly<generated::MinBackward1>(node, gradients)) return found;
  if (auto found = evenly<generated::MedianBackward0>(node, gradients)) return found;
  if (auto found = evenly<generated::NanmedianBackward0>(node, gradients)) return found;
  const at::Tensor& gradient = gradients.at(0);
  if (const auto* n = as<generated::ProdBackward0>(*node)) {
    const at::Tensor input = n->self_.unpack().to(gradient.scalar_type());
    return variable_list{product_of_others(gradient, input.contiguous().view(-1), 0).view_as(input)};
  }
  if (const auto* n = as<generated::ProdBackward1>(*node)) {
    const at::Tensor input = n->self_.unpack().to(gradient.scalar_type());
    if (input.dim() == 0) return variable_list{gradient};
    const int64_t dim = at::maybe_wrap_dim(n->dim, input.dim());
    return variable_list{product_of_others(n->keepdim ? gradient : gradient.unsqueeze(dim), input, dim)};
  }
  return std::nullopt;
}

}  // namespace vesta::trace
