#include "capture/python/wrapper/call_signature.h"

#include "capture/python/tensors/tensors.h"

namespace vesta::capture {

CallSignature::Argument CallSignature::of(PyObject* x) {
  if (!x) return {nullptr, 0};
  uint64_t facts = 0;
  if (is_tensor(x))
    facts = tensor_brief(x);
  else if (PyBool_Check(x))
    facts = x == Py_True;
  return {Py_TYPE(x), facts};
}

CallSignature::CallSignature(const CallArguments& call)
    : count_(call.count()), grad_mode_(is_grad_mode_on()), names_(call.names) {
  for (size_t i = 0; i < count_; ++i) arguments_[i] = of(call.items[i]);
}

bool CallSignature::is_of(const CallArguments& call) const {
  if (call.names != names_ || call.count() != count_ || is_grad_mode_on() != grad_mode_) return false;
  for (size_t i = 0; i < count_; ++i)
    if (!(of(call.items[i]) == arguments_[i])) return false;
  return true;
}

}  // namespace vesta::capture
