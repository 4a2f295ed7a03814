#include "trace/gradients/formulas.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumprod.h>
#include <ATen/ops/ones.h>
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

// The product of all other elements: of those before and of those after. Zeros need no case of their own.
at::Tensor product_of_others(const at::Tensor& gradient, const at::Tensor& input, int64_t dim) {
  const c10::SymInt size = input.sym_size(dim);
  if (input.sym_numel() == 0) return at::zeros_like(input);
  if (size == 1) return gradient;
  c10::SymDimVector one(input.sym_sizes());
  one[static_cast<size_t>(dim)] = 1;
  const at::Tensor ones = at::ones_symint(one, input.options());
  const at::Tensor before = at::cat({ones, input.narrow_symint(dim, 0, size - 1)}, dim).cumprod(dim);
  const at::Tensor after = at::cat({ones, input.narrow_symint(dim, 1, size - 1).flip(dim)}, dim).cumprod(dim).flip(dim);
  return gradient * (before * after).conj();
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
