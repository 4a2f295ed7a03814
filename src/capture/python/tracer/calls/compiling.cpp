// Being compiled: programs that ask whether they are, and functions that torch or Vesta wrapped to compile them or not
// to.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/functions/compilers.h"
#include "capture/python/functions/python_functions.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture {
namespace {

std::string_view module_of(const Frame* f) {
  PyObject* globals = globals_of(f);
  PyObject* name = globals && PyDict_Check(globals) ? PyDict_GetItemString(globals, "__name__") : nullptr;
  return utf8_of(name);
}

// The name of the module that asks.
std::string_view asking_module(const Trace& t) {
  const Frame* f = t.progress.place().frame;
  while (f && f != t.root && relays_is_compiling(module_of(f))) f = caller_of(f);
  return f ? module_of(f) : std::string_view();
}

}  // namespace

namespace handlers {

Result is_compiling(Trace& t, const Call&) {
  if (computes_otherwise_compiled(asking_module(t))) return Py_NewRef(Py_False);
  t.calls.asked_compiling = true;
  return PyBool_FromLong(t.settings.says_compiling);
}

Result is_dynamo_compiling(Trace& t, const Call&) {
  const std::string_view module = asking_module(t);
  if (!enters_dynamo_unless_compiling(module)) return Py_NewRef(Py_False);
  // In training the operators have gradients of their own, which Dynamo's graphs ask for: zeros for the operands of the
  // branch that is not taken. flex_attention's math is an operator on its tensors alone.
  const bool own_tensors = module == "torch.nn.attention.flex_attention";
  return PyBool_FromLong(own_tensors ? !t.settings.gradients : !torch_state().grad);
}

// torch._dynamo.mark_static and its like: notes for Dynamo on a tensor.
Result mark_for_dynamo(Trace& t, const Call&) {
  if (!enters_dynamo_unless_compiling(asking_module(t))) return std::nullopt;
  return Py_NewRef(Py_None);
}

// torch.optim asks Dynamo for breaks around each step, to keep its graphs apart. Nothing here depends on them.
Result request_break(Trace& t, const Call& c) {
  if (asking_module(t) == "torch.optim.optimizer") return Py_NewRef(Py_None);
  return t.graph_break(Break::RequestedBreak, name_of_callable(c.function));
}

// Returns its first argument in a compiled form. In a trace it returns the argument: that is compiled with the program.
Result as_compiled(Trace&, const Call& c) {
  if (c.n == 0) return std::nullopt;
  return Py_NewRef(c.args[0]);
}

// A function that torch.compile wrapped is compiled once: as part of this program. So is one that is disabled for
// Dynamo alone.
Result compiled_by_torch(Trace& t, const Call& c) {
  PyObject* inner = is_disabled(c.function) ? nullptr : wrapped_callable(c.function, "_torchdynamo_orig_callable");
  if (!inner) return std::nullopt;
  return t.calls.in_place_of(c, inner);
}

// A function that torch hides from Dynamo, and from Dynamo alone.
Result hidden_from_dynamo(Trace& t, const Call& c) {
  PyObject* inner = wrapped_callable(c.function, "__wrapped__");
  if (!inner || !PyFunction_Check(inner)) return std::nullopt;
  return t.calls.in_place_of(c, inner);
}

}  // namespace handlers

}  // namespace vesta::capture
