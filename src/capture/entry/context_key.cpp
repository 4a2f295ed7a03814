#include "capture/entry/context_key.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/ScalarTypeToTypeMeta.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/forward_grad.h>

namespace vesta::capture {

uint64_t context_key() {
  uint64_t key = 0;
  auto add = [&](uint64_t value, int bits) { key = key << bits | value; };
  for (const c10::DeviceType device : {c10::kCPU, c10::kCUDA}) {
    const bool on = at::autocast::is_autocast_enabled(device);
    add(on, 1);
    add(on ? static_cast<uint64_t>(at::autocast::get_autocast_dtype(device)) : 0, 8);
  }
  add(static_cast<uint64_t>(c10::typeMetaToScalarType(c10::get_default_dtype())), 8);
  add(at::globalContext().deterministicAlgorithms(), 1);
  add(c10::InferenceMode::is_enabled(), 1);
  add(c10::GradMode::is_enabled(), 1);
  return key;
}

const char* foreign_mode() {
  static const c10::DispatchKeySet usual =
      c10::DispatchKeySet({c10::DispatchKey::BackendSelect, c10::DispatchKey::ADInplaceOrView}) |
      c10::autocast_dispatch_keyset;
  const c10::DispatchKeySet included = c10::impl::tls_local_dispatch_key_set().included_;
  if (!(included - usual).empty()) return "a dispatch mode or a functional transform is active";
  // A compiled program would drop the tangents.
  return torch::autograd::ForwardADLevel::try_get_by_idx(0) ? "forward-mode differentiation is active" : nullptr;
}

}  // namespace vesta::capture
