#include "capture/python/wrapper/call_look.h"

#include "capture/python/tensors/tensors.h"

namespace vesta::capture {

CallLook::Look CallLook::look(PyObject* x) {
  uint64_t facts = 0;
  if (is_tensor(x))
    facts = tensor_brief(x);
  else if (PyBool_Check(x))
    facts = x == Py_True;
  return {Py_TYPE(x), facts};
}

CallLook::CallLook(const CallArguments& call)
    : count_(call.count()), grad_mode_(is_grad_mode_on()), names_(call.names) {
  for (size_t i = 0; i < count_; ++i) looks_[i] = look(call.items[i]);
}

bool CallLook::is_of(const CallArguments& call) const {
  if (call.names != names_ || call.count() != count_ || is_grad_mode_on() != grad_mode_) return false;
  for (size_t i = 0; i < count_; ++i)
    if (!(look(call.items[i]) == looks_[i])) return false;
  return true;
}

}  // namespace vesta::capture
