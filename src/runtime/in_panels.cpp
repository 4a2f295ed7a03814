#include "runtime/in_panels.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>

#include <mutex>
#include <vector>

namespace vesta::runtime {

at::Tensor in_panels(const at::Tensor& weight, int64_t panel) {
  TORCH_CHECK(weight.dim() >= 2 && panel > 0, "in_panels takes a weight of rows, and the rows of a panel");
  if (weight.scalar_type() == at::kBFloat16) {
    TORCH_CHECK(weight.size(-1) % 2 == 0, "in_panels takes an even number of bfloat16 elements");
    return in_panels(weight.contiguous().view(at::kInt), panel).view(at::kBFloat16).unflatten(-1, {panel, 2});
  }
  const int64_t rows = weight.size(0), whole = rows / panel, rest = rows % panel;
  std::vector<int64_t> sizes = weight.sizes().vec();
  sizes[0] = whole + (rest > 0);
  sizes.push_back(panel);
  at::Tensor out = at::empty(sizes, weight.options().requires_grad(false), at::MemoryFormat::Contiguous);
  const at::Tensor to = out.movedim(-1, 1);  // [panel][row of the panel][inner...]
  if (whole > 0) to.narrow(0, 0, whole).copy_(weight.narrow(0, 0, whole * panel).unflatten(0, {whole, panel}));
  if (rest > 0) {
    const at::Tensor last = to.select(0, whole);
    last.narrow(0, 0, rest).copy_(weight.narrow(0, whole * panel, rest));
    last.narrow(0, rest, panel - rest).zero_();
  }
  return out;
}

void declare_in_panels() {
  static std::once_flag once;
  std::call_once(once, [] {
    auto& dispatcher = c10::Dispatcher::singleton();
    const c10::OperatorName name("vesta::in_panels", "");
    if (dispatcher.findSchema(name)) return;  // another copy of the runtime has declared it
    // Registrations are kept, as every operator of a library is.
    static auto* kept = new std::vector<c10::RegistrationHandleRAII>();
    kept->push_back(
        dispatcher.registerDef(torch::jit::parseSchema("vesta::in_panels(Tensor weight, int panel) -> Tensor"), ""));
    kept->push_back(dispatcher.registerImpl(name, c10::DispatchKey::CPU,
                                            c10::KernelFunction::makeFromUnboxedRuntimeFunction(&in_panels),
                                            std::nullopt, nullptr, ""));
  });
}

}  // namespace vesta::runtime
