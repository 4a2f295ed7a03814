// Functions of torch that are no operators: settings, and torch.autograd.Function.apply.
#include <algorithm>
#include <utility>

#include "capture/python/functions/call_handlers.h"
#include "capture/python/tensors/inner_backward.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/leaf_gradients.h"
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

// A call whose backward method would run is traced with it: the method's effects would come too early, so it may have
// none.
static PyObject* apply_with_backward(Trace& t, const Call& c) {
  if (!t.settings.gradients) return t.graph_break(need_gradients("the program calls a torch.autograd.Function"));
  if (c.named() > 0) return t.graph_break(Break::AutogradFunction, "it takes arguments by name");
  const Object args = Object::take(fake_arguments(c.args, c.n));
  if (!args) return t.graph_break(trace_failure());
  PyObject* result = t.calls.plainly(c.function, span_of(args.get()).data(), c.n, nullptr);
  if (!result) return nullptr;
  std::vector<Object> written;
  std::vector<Object>* const outer = std::exchange(t.log.targets, &written);
  const bool traced = trace_function(args.get(), result);
  t.log.targets = outer;
  if (outer) outer->insert(outer->end(), written.begin(), written.end());
  const bool has_effects =
      std::any_of(written.begin(), written.end(), [&](const Object& x) { return t.sources.find(x.get()) >= 0; });
  if (traced && !has_effects) return result;
  Py_DECREF(result);
  if (t.ended()) return nullptr;
  const Reason why = trace_failure();
  PyErr_Clear();
  return t.graph_break(Break::AutogradFunction,
                       why.empty() ? "its backward method writes to an object that it has not made" : why.text);
}

Result autograd_apply(Trace& t, const Call& c) {
  const bool grad = torch_state().grad;
  bool differentiates = false;
  for (Py_ssize_t i = 0; i < c.all(); ++i) {
    if (!t.tracker.operand(c.args[i])) return nullptr;
    if (!grad || !is_tensor(c.args[i])) continue;
    const Object required = Object::take(t.objects.get_attr(c.args[i], "requires_grad"_name));
    if (!required) return nullptr;
    differentiates |= required.get() != Py_False;
  }
  return differentiates ? apply_with_backward(t, c) : t.calls.plainly(c);
}

static Result required_now(Trace& t, PyObject* tensor, bool required) {
  const std::optional<bool> done = set_requires_grad(t, tensor, required);
  if (!done) return std::nullopt;
  return *done ? Py_NewRef(tensor) : nullptr;
}

// requires_grad_() of a tensor that the trace has made, of one that requires a gradient already, and of leaves.
Result require_grad(Trace& t, const Call& c) {
  if (!c.owner() || c.rest_count() + c.named() > 1 || !is_tensor(c.owner())) return std::nullopt;
  if (c.named() > 0 && utf8_of(PyTuple_GET_ITEM(c.names, 0)) != "requires_grad") return std::nullopt;
  PyObject* const tensor = c.owner();
  PyObject* const wanted = c.named() > 0 ? c.args[c.n] : c.rest_count() == 0 ? Py_True : c.rest()[0];
  const bool is_new = t.sources.find(t.tensors.held_by_program(tensor)) < 0;
  // A transform makes leaves of its own; its kernels follow them, and refuse those of the program.
  if (is_wrapped(tensor) || torch_state().transforms > 0) return t.calls.plainly(c);
  if (wanted == Py_True) {
    const Object required = Object::take(t.objects.get_attr(tensor, "requires_grad"_name));
    if (!required) return nullptr;
    if (required.get() == Py_True) return Py_NewRef(tensor);
    if (!is_new) return required_now(t, tensor, true);
    if (!is_traced(tensor) || !is_base_tensor(tensor)) return std::nullopt;
    if (!t.settings.gradients) return t.graph_break(need_gradients("a tensor begins to require a gradient"));
    return t.calls.plainly(c);
  }
  if (wanted != Py_False || is_new) return std::nullopt;
  PyObject* real = t.objects.guard_flags(tensor);
  if (is_traced(real) || requires_grad(real)) return required_now(t, tensor, false);
  return Py_NewRef(tensor);
}

}  // namespace vesta::capture::handlers
