#include "trace/gradients/history_cuts.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace vesta::trace {
namespace {

template <class F>
void for_each_tensor(const TapeArg& a, F&& f) {
  if (const auto* t = std::get_if<TapeTensor>(&a.value)) f(*t);
  if (const auto* list = std::get_if<TapeArg::List>(&a.value))
    for (const TapeArg& x : *list) for_each_tensor(x, f);
}

}  // namespace

bool cuts_history(const Tape& tape, std::span<const at::Tensor> inputs) {
  std::vector<bool> requires_grad(static_cast<size_t>(tape.tensor_count));
  for (size_t i = 0; i < tape.inputs.size() && i < inputs.size(); ++i)
    if (inputs[i].defined() && inputs[i].requires_grad())
      requires_grad[static_cast<size_t>(tape.inputs[i].index)] = true;
  for (const TapeCall& call : tape.calls) {
    bool any = false;
    const auto ask = [&](const TapeTensor& t) { any |= requires_grad[static_cast<size_t>(t.index)]; };
    for (const TapeArg& a : call.args) for_each_tensor(a, ask);
    if (!any) continue;
    const std::string_view name = call.op.operator_name().name;
    if (!call.grad_mode || name.starts_with("aten::detach")) return true;
    const auto mark = [&](const TapeTensor& t) { requires_grad[static_cast<size_t>(t.index)] = true; };
    for (const TapeArg& r : call.results) for_each_tensor(r, mark);
    // What is written requires a gradient, too.
    if (call.op.schema().is_mutable())
      for (const TapeArg& a : call.args) for_each_tensor(a, mark);
  }
  return false;
}

}  // namespace vesta::trace
