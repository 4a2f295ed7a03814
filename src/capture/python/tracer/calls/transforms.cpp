// Functional transforms (torch.func). Their Python code is traced as any other, and PyTorch's own kernels for vmap,
// grad and jvp run in the trace: here is what they ask of the tensors that they wrap, and what they do beside that.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/hook/hook.h"
#include "capture/python/tensors/inner_backward.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture::handlers {

// A transform wraps the fake tensor, never the program's own: what is in a wrapper is known to the trace.
Result wrap_for_transform(Trace& t, const Call& c) {
  if (c.named() > 0) return std::nullopt;
  for (Py_ssize_t i = 0; i < c.n; ++i)
    if (!t.tracker.operand(c.args[i]) || (is_tensor(c.args[i]) && !t.tensors.lift(c.args[i]))) return nullptr;
  const Object args = Object::take(fake_arguments(c.args, c.n));
  if (!args) return t.graph_break(trace_failure());
  return t.calls.plainly(c.function, span_of(args.get()).data(), c.n, nullptr);
}

// In a transform, PyTorch's kernels give the tangents to the wrappers. Tensors of the trace itself have none.
Result enter_dual_level(Trace& t, const Call&) {
  if (torch_state().transforms > 0) return std::nullopt;
  return t.graph_break(Break::ForwardMode);
}

// The generator of a context manager that switches compiled autograd off, as torch.func does around its own passes. No
// engine of PyTorch runs in a trace.
Result without_compiled_autograd(Trace& t, const Call& c) {
  static PyObject* const nothing = attribute_of("vesta.eager", "enter_nothing").release();
  if (!nothing || c.all() > 0) return PyErr_Clear(), std::nullopt;
  return t.calls.in_place_of(c, nothing);
}

// The first vmap of a process registers kernels for operators. That is no effect of the program: it is not undone.
Result load_decompositions(Trace&, const Call& c) {
  const HookOff off;
  return PyObject_Vectorcall(c.function, c.args, static_cast<size_t>(c.n), c.names);
}

}  // namespace vesta::capture::handlers
