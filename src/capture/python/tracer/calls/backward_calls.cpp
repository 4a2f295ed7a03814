// Calls of torch.autograd's engine by the program: loss.backward(), torch.autograd.backward() and torch.autograd.grad()
// all come to torch.autograd.graph._engine_run_backward, whose callers are traced as any Python code.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/tensors/inner_backward.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/leaf_gradients.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture::handlers {
namespace {

// False: not a sequence of tensors (and of None).
bool tensors_in(PyObject* x, std::vector<PyObject*>& out, bool or_none) {
  if (!PyTuple_Check(x) && !PyList_Check(x)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(x); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(x, i);
    if (!is_tensor(item) && !(or_none && item == Py_None)) return false;
    out.push_back(item);
  }
  return true;
}

// The arguments of the engine. nullopt: PyTorch's own functions do not give such arguments.
std::optional<BackwardCall> engine_call(const Call& c) {
  constexpr Py_ssize_t kMost = 7;
  static const char* const kNames[kMost] = {
      "", "", "keep_graph", "create_graph", "inputs", "allow_unreachable", "accumulate_grad"};
  PyObject* given[kMost] = {nullptr, nullptr, Py_False, Py_False, nullptr, Py_False, Py_False};
  if (c.n < 2 || c.n > kMost) return std::nullopt;
  for (Py_ssize_t i = 0; i < c.n; ++i) given[i] = c.args[i];
  for (Py_ssize_t i = 0; i < c.named(); ++i) {
    Py_ssize_t at = 2;
    while (at < kMost && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(c.names, i), kNames[at]) != 0) ++at;
    if (at == kMost) return std::nullopt;
    given[at] = c.args[c.n + i];
  }
  BackwardCall out;
  if (!tensors_in(given[0], out.results, false) || !tensors_in(given[1], out.tangents, true)) return std::nullopt;
  if (out.results.size() != out.tangents.size()) return std::nullopt;
  if (given[4] && !tensors_in(given[4], out.inputs, false)) return std::nullopt;
  for (const Py_ssize_t i : {2, 3, 5, 6})
    if (!PyBool_Check(given[i])) return std::nullopt;
  out.keeps_graph = given[2] == Py_True;
  out.creates_graph = given[3] == Py_True;
  out.allows_unused = given[5] == Py_True;
  out.accumulates = given[6] == Py_True;
  return out;
}

}  // namespace

// torch.autograd._make_grads(outputs, grads, is_grads_batched): without its imports of other parts of torch.
Result make_gradients(Trace& t, const Call& c) {
  const Py_ssize_t batched = c.named() == 1 ? c.n : 2;
  if (c.all() != 3 || c.n < 2 || c.args[batched] != Py_False) return std::nullopt;
  std::vector<PyObject*> results, given;
  if (!tensors_in(c.args[0], results, false) || !tensors_in(c.args[1], given, true)) return std::nullopt;
  if (results.size() != given.size()) return std::nullopt;
  Object out = Object::take(PyTuple_New(static_cast<Py_ssize_t>(results.size())));
  for (size_t i = 0; out && i < results.size(); ++i) {
    if (!t.tensors.lift(results[i]) || !t.may_run_operator()) return nullptr;
    std::optional<Object> tangent = tangent_for(results[i], given[i]);
    if (!tangent) return std::nullopt;
    if (!*tangent) return t.graph_break(trace_failure());
    PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), tangent->release());
  }
  return out.release();
}

Result run_backward(Trace& t, const Call& c) {
  const std::optional<BackwardCall> call = engine_call(c);
  if (!call) return std::nullopt;
  if (!t.may_run_operator()) return nullptr;
  const std::optional<BackwardGradients> found = trace_backward(*call);
  if (!found) return t.graph_break(trace_failure());
  if (!call->accumulates) {
    Object out = Object::take(PyTuple_New(static_cast<Py_ssize_t>(found->captured.size())));
    for (size_t i = 0; out && i < found->captured.size(); ++i)
      PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), Py_NewRef(found->captured[i].get()));
    return out.release();
  }
  for (const auto& [leaf, gradient] : found->leaves)
    if (!accumulate_gradient(t, leaf.get(), gradient.get(), call->creates_graph)) return nullptr;
  return Py_NewRef(Py_None);
}

}  // namespace vesta::capture::handlers
