// Functions of torch that are no operators: settings, and torch.autograd.Function.apply.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture::handlers {

Result torch_setting(Trace& t, const Call& c) {
  if (!c.is_positional(0)) return std::nullopt;
  Object x = Object::take(t.calls.plainly(c));
  if (!x) return nullptr;
  if (!PyBool_Check(x.get())) return t.graph_break(Break::UnsupportedArguments, name_of_callable(c.function));
  t.guards.add(Check::Is, t.sources.add(SourceKind::Flag, t.sources.constant(c.function)), x.get());
  return x.release();
}

Result autograd_apply(Trace& t, const Call& c) {
  const bool grad = torch_state().grad;
  for (Py_ssize_t i = 0; i < c.all(); ++i) {
    if (!t.tracker.operand(c.args[i])) return nullptr;
    if (!grad || !is_tensor(c.args[i])) continue;
    const Object required = Object::take(t.objects.get_attr(c.args[i], "requires_grad"_name));
    if (!required) return nullptr;
    if (required.get() != Py_False) return t.graph_break(Break::AutogradFunction);
  }
  return t.calls.plainly(c);
}

// requires_grad_() of a tensor that requires a gradient already, and requires_grad_(False) of a tensor of the program
// that requires none: they change nothing.
Result require_grad(Trace& t, const Call& c) {
  if (!c.owner() || c.named() > 0 || c.rest_count() > 1 || !is_tensor(c.owner())) return std::nullopt;
  PyObject* const tensor = c.owner();
  PyObject* const wanted = c.rest_count() == 0 ? Py_True : c.rest()[0];
  if (wanted == Py_True) {
    const Object required = Object::take(t.objects.get_attr(tensor, "requires_grad"_name));
    if (!required) return nullptr;
    return required.get() == Py_True ? Result(Py_NewRef(tensor)) : std::nullopt;
  }
  if (wanted != Py_False || t.sources.find(t.tensors.held_by_program(tensor)) < 0) return std::nullopt;
  PyObject* real = t.objects.guard_flags(tensor);
  if (is_traced(real) || requires_grad(real)) return std::nullopt;
  return Py_NewRef(tensor);
}

}  // namespace vesta::capture::handlers
