// torch's higher-order operators: torch.cond, flex_attention, ... The trace calls the kernel that eager runs below
// gradients and modes.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/functions/plain_objects.h"
#include "capture/python/hook/hook.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture::handlers {
namespace {

// A tensor that may have operators of its own, in containers too.
bool has_own_operators(PyObject* x, int depth) {
  if (is_tensor(x)) return !is_data(x);
  if (depth == 0 || (!PyTuple_Check(x) && !PyList_Check(x))) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(x); ++i)
    if (has_own_operators(PySequence_Fast_GET_ITEM(x, i), depth - 1)) return true;
  return false;
}

// What an operator does on the dispatch key of this name; a Python error or nothing if it has no such kernel.
Object kernel_of(PyObject* op, const char* key) {
  const Object kernels = attribute_of(op, "py_kernels");
  const Object name = attribute_of(attribute_of("torch._C", "DispatchKey").get(), key);
  if (!name || !kernels || !PyDict_Check(kernels.get())) return {};
  return Object::share(PyDict_GetItemWithError(kernels.get(), name.get()));
}

}  // namespace

// The operator is the first argument.
Result call_higher_order(Trace& t, const Call& c) {
  if (c.n == 0) return std::nullopt;
  PyObject* op = c.args[0];
  const std::string name = Py_TYPE(op)->tp_name;
  if (t.settings.gradients && torch_state().grad)
    return t.graph_break(Break::HigherOrderOperator, name, "while gradients are recorded");
  if (are_function_modes_active()) return t.graph_break(Break::HigherOrderOperator, name, "in a torch function mode");
  for (Py_ssize_t i = 1; i < c.all(); ++i)
    if (has_own_operators(c.args[i], 4))
      return t.graph_break(Break::HigherOrderOperator, name, "with a tensor subclass");
  const TorchState state = torch_state();
  if (state.transforms > 0) return t.graph_break(Break::HigherOrderOperator, name, "in a functional transform");
  Object kernel;
  {
    const HookOff off;
    for (const auto& [on, key] : {std::pair{state.cpu.enabled, "AutocastCPU"}, {state.cuda.enabled, "AutocastCUDA"}})
      if (on && kernel_of(op, key))
        return PyErr_Clear(), t.graph_break(Break::HigherOrderOperator, name, "in autocast");
    kernel = kernel_of(op, "CompositeExplicitAutograd");
    PyErr_Clear();
  }
  if (!kernel || !PyFunction_Check(kernel.get())) return t.graph_break(Break::HigherOrderKernel, name);
  return t.calls.in_place_of({op, nullptr, c.args + 1, c.n - 1, c.names}, kernel.get());
}

}  // namespace vesta::capture::handlers
