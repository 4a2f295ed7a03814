#include "capture/python/tensors/leaf_hooks.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <string_view>
#include <typeinfo>

namespace vesta::capture {

// libtorch_python keeps the type information of its hooks to itself.
template <class T>
static bool is_called(const T& hook, std::string_view name) {
  return std::string_view(typeid(hook).name()).find(name) != std::string_view::npos;
}

PyObject* functions_of(const torch::autograd::FunctionPreHook& hook, size_t* index) {
  if (!is_called(hook, "23PyFunctionTensorPreHook")) return nullptr;
  const auto& python = static_cast<const torch::autograd::PyFunctionTensorPreHook&>(hook);
  if (index) *index = python.value_idx;
  return python.dict;
}

PyObject* node_functions_of(const torch::autograd::FunctionPreHook& hook) {
  return is_called(hook, "17PyFunctionPreHook") ? static_cast<const torch::autograd::PyFunctionPreHook&>(hook).dict
                                                : nullptr;
}

PyObject* node_functions_of(const torch::autograd::FunctionPostHook& hook) {
  return is_called(hook, "18PyFunctionPostHook") ? static_cast<const torch::autograd::PyFunctionPostHook&>(hook).dict
                                                 : nullptr;
}

LeafHooks hooks_of(const at::Tensor& leaf) {
  LeafHooks out;
  for (const auto& hook : torch::autograd::impl::hooks(leaf)) {
    if (PyObject* functions = functions_of(*hook))
      out.before.push_back(functions);
    else
      out.others = true;
  }
  if (const auto& hook = torch::autograd::impl::post_acc_grad_hooks(leaf)) {
    if (is_called(*hook, "32PyFunctionTensorPostAccGradHooks"))
      out.after = static_cast<const torch::autograd::PyFunctionTensorPostAccGradHooks&>(*hook).dict;
    else
      out.others = true;
  }
  // Its hooks on tensors are those of the leaf.
  const auto node = torch::autograd::impl::try_get_grad_accumulator(leaf);
  out.others |= node && (!node->pre_hooks().empty() || !node->post_hooks().empty());
  return out;
}

}  // namespace vesta::capture
