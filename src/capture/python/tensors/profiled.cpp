#include "capture/python/tensors/profiled.h"

#include <ATen/record_function.h>

namespace vesta::capture {

bool is_profiled() { return at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE).has_value(); }

void ProfiledRange::begin(const std::string& name) {
  const auto range = std::make_shared<at::RecordFunction>(at::RecordScope::USER_SCOPE);
  if (range->isActive()) range->before(name);
  range_ = range;
}

}  // namespace vesta::capture
