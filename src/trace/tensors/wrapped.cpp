#include "trace/tensors/wrapped.h"

#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/TensorWrapper.h>

#include "trace/tensors/tangent_batch.h"

namespace vesta::trace {

bool is_wrapped(const at::TensorBase& t) {
  constexpr c10::DispatchKeySet kKeys{c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper,
                                      c10::DispatchKey::Batched};
  return t.defined() && t.key_set().has_any(kKeys);
}

at::Tensor unwrapped(at::Tensor t) {
  while (is_wrapped(t)) {
    if (const auto* batched = at::functorch::maybeGetBatchedImpl(t))
      t = at::Tensor(batched->value());
    else if (const auto* wrapper = at::functorch::maybeGetTensorWrapper(t))
      t = at::Tensor(wrapper->value());
    else if (const at::Tensor held = in_tangent_batch(t); held.defined())
      t = held;
    else
      break;
  }
  return t;
}

}  // namespace vesta::trace
