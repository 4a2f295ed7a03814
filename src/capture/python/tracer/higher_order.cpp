// torch's higher-order operators (torch.cond, flex_attention, ...), and who is told that it is being compiled.
#include "capture/python/hook/hook.h"
#include "capture/python/tracer/compilers.h"
#include "capture/python/tracer/tracer.h"

namespace vesta::capture {
namespace {

std::string_view module_of(const Frame* f) {
  PyObject* globals = globals_of(f);
  PyObject* name = globals && PyDict_Check(globals) ? PyDict_GetItemString(globals, "__name__") : nullptr;
  const char* text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  if (!text) PyErr_Clear();
  return text ? text : "";
}

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
  const Object kernels = Object::take(PyObject_GetAttrString(op, "py_kernels"));
  const Object c = Object::take(kernels ? PyImport_ImportModule("torch._C") : nullptr);
  const Object keys = Object::take(c ? PyObject_GetAttrString(c.get(), "DispatchKey") : nullptr);
  const Object name = Object::take(keys ? PyObject_GetAttrString(keys.get(), key) : nullptr);
  if (!name || !PyDict_Check(kernels.get())) return {};
  return Object::share(PyDict_GetItemWithError(kernels.get(), name.get()));
}

}  // namespace

std::string_view Tracer::asking_module() const {
  const Frame* f = where_;
  while (f && f != root_ && relays_is_compiling(module_of(f))) f = caller_of(f);
  return f ? module_of(f) : std::string_view();
}

bool Tracer::is_compiling() {
  if (computes_otherwise_compiled(asking_module())) return false;
  asked_compiling_ = true;
  return settings_.says_compiling;
}

bool Tracer::is_dynamo_compiling() const {
  const std::string_view module = asking_module();
  if (!enters_dynamo_unless_compiling(module)) return false;
  // In training the operators have gradients of their own, which Dynamo's graphs ask for: zeros for what the branch
  // that is not taken would have used. flex_attention's math is an operator on its tensors alone.
  const bool own_tensors = module == "torch.nn.attention.flex_attention";
  return own_tensors ? !settings_.gradients : !torch_state().grad;
}

PyObject* Tracer::call_higher_order(PyObject* const* args, Py_ssize_t n, PyObject* names) {
  PyObject* op = args[0];
  const std::string name = Py_TYPE(op)->tp_name;
  if (settings_.gradients && torch_state().grad)
    return graph_break(Break::HigherOrderOperator, name, "while gradients are recorded");
  if (are_function_modes_active()) return graph_break(Break::HigherOrderOperator, name, "in a torch function mode");
  const Py_ssize_t all = n + (names ? PyTuple_GET_SIZE(names) : 0);
  for (Py_ssize_t i = 1; i < all; ++i)
    if (has_own_operators(args[i], 4)) return graph_break(Break::HigherOrderOperator, name, "with a tensor subclass");
  const TorchState state = torch_state();
  if (state.transforms > 0) return graph_break(Break::HigherOrderOperator, name, "in a functional transform");
  Object kernel;
  {
    const HookOff off;
    for (const auto& [on, key] : {std::pair{state.cpu.enabled, "AutocastCPU"}, {state.cuda.enabled, "AutocastCUDA"}})
      if (on && kernel_of(op, key)) return PyErr_Clear(), graph_break(Break::HigherOrderOperator, name, "in autocast");
    kernel = kernel_of(op, "CompositeExplicitAutograd");
    PyErr_Clear();
  }
  if (!kernel || !PyFunction_Check(kernel.get())) return graph_break(Break::HigherOrderKernel, name);
  if (const int source = sources.find(op); source >= 0 && sources[source].kind != SourceKind::Constant)
    guard(Check::Is, source, op);
  if (sources.find(kernel.get()) < 0) Py_XDECREF(track_constant(kernel.get()));
  return call(kernel.get(), args + 1, static_cast<size_t>(n - 1), names);
}

}  // namespace vesta::capture
