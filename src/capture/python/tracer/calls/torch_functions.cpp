// Functions of torch that are no operators: settings, and torch.autograd.Function.apply.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/tracer/tracer.h"

namespace vesta::capture::handlers {

Result torch_setting(Tracer& t, const Call& c) {
  if (!c.is_positional(0)) return std::nullopt;
  Object x = Object::take(t.calls.plainly(c));
  if (!x) return nullptr;
  if (!PyBool_Check(x.get())) return t.graph_break(Break::UnsupportedArguments, name_of_callable(c.function));
  t.guard(Check::Is, t.sources.add(SourceKind::Flag, t.sources.add(SourceKind::Constant, -1, 0, c.function)), x.get());
  return x.release();
}

Result autograd_apply(Tracer& t, const Call& c) {
  static PyObject* const requires_grad = PyUnicode_InternFromString("requires_grad");
  const bool grad = torch_state().grad;
  for (Py_ssize_t i = 0; i < c.all(); ++i) {
    if (!t.operand(c.args[i])) return nullptr;
    if (!grad || !is_tensor(c.args[i])) continue;
    const Object required = Object::take(t.get_attr(c.args[i], requires_grad));
    if (!required) return nullptr;
    if (required.get() != Py_False) return t.graph_break(Break::AutogradFunction);
  }
  return t.calls.plainly(c);
}

}  // namespace vesta::capture::handlers
