// Hooks that autograd calls with the gradient of a leaf tensor.
#pragma once

#include <Python.h>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function_hook.h>

#include <vector>

namespace vesta::capture {

struct LeafHooks {
  std::vector<PyObject*> before;  // dicts of functions that change the gradient; borrowed
  PyObject* after = nullptr;      // a dict of functions that run when the leaf has it; borrowed
  bool others = false;            // hooks that are not Python functions, or on the node that accumulates
  bool any() const { return !before.empty() || after || others; }
};

LeafHooks hooks_of(const at::Tensor& leaf);

// The dict of functions of a hook that Tensor.register_hook has made; borrowed, nullptr: it is another one. `index`: of
// the gradient that it changes.
PyObject* functions_of(const torch::autograd::FunctionPreHook& hook, size_t* index = nullptr);
// Those of hooks on a node, which get all of its gradients.
PyObject* node_functions_of(const torch::autograd::FunctionPreHook& hook);
PyObject* node_functions_of(const torch::autograd::FunctionPostHook& hook);

}  // namespace vesta::capture
