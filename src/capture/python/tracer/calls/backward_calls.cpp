// Calls of torch.autograd's engine by the program: loss.backward(), torch.autograd.backward() and torch.autograd.grad()
// all come to torch.autograd.graph._engine_run_backward, whose callers are traced as any Python code.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/hook/hook.h"
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

// What the program does in a pass: it calls hooks, and leaves get gradients.
class Pass final : public BackwardEvents {
 public:
  Pass(Trace& t, bool creates_graph) : t_(t), creates_graph_(creates_graph) {}

  PyObject* hooked(PyObject* leaf, PyObject* hooks, PyObject* gradient) override {
    if (leaf && !know(leaf, hooks, kHooks)) return nullptr;
    Object now = Object::share(gradient);
    const Object all = Object::take(PyDict_Values(hooks));
    for (Py_ssize_t i = 0; all && i < PyList_GET_SIZE(all.get()); ++i) {
      PyObject* const given = now.get();
      Object found = Object::take(t_.calls.call(PyList_GET_ITEM(all.get(), i), &given, 1, nullptr));
      if (!found) return nullptr;
      if (found.get() == Py_None) continue;
      if (!may_replace_gradient(given, found.get())) return nullptr;
      now = std::move(found);
    }
    return all ? now.release() : nullptr;
  }

  PyObject* node_hooked(PyObject* hooks, PyObject* gradients, PyObject* arrived) override {
    Object now = Object::share(gradients);
    const Object all = Object::take(PyDict_Values(hooks));
    for (Py_ssize_t i = 0; all && i < PyList_GET_SIZE(all.get()); ++i) {
      PyObject* const given[2] = {now.get(), arrived};
      Object found = Object::take(t_.calls.call(PyList_GET_ITEM(all.get(), i), given, arrived ? 2 : 1, nullptr));
      if (!found) return nullptr;
      if (found.get() == Py_None) continue;
      if (!arrived && !PyTuple_Check(found.get())) found = Object::take(PyTuple_Pack(1, found.get()));
      if (!found || !may_replace_all(now.get(), found.get())) return nullptr;
      now = std::move(found);
    }
    return all ? now.release() : nullptr;
  }

  bool accumulate(PyObject* leaf, PyObject* gradient, PyObject* hooks) override {
    if (!accumulate_gradient(t_, leaf, gradient, creates_graph_)) return false;
    if (!hooks) return true;
    if (!is_traced(leaf) && !know(leaf, hooks, kHooksAfter)) return false;
    const Object all = Object::take(PyDict_Values(hooks));
    for (Py_ssize_t i = 0; all && i < PyList_GET_SIZE(all.get()); ++i) {
      PyObject* const given = t_.tensors.fake_of(leaf);
      const Object found = Object::take(t_.calls.call(PyList_GET_ITEM(all.get(), i), &given, 1, nullptr));
      if (!found) return false;
      if (found.get() != Py_None) return PyErr_SetString(PyExc_RuntimeError, "a hook returns something"), false;
    }
    return static_cast<bool>(all);
  }

 private:
  // As torch checks what a hook on a node returns.
  static bool may_replace_all(PyObject* gradients, PyObject* returned) {
    const bool fits = PyTuple_Check(returned) && PyTuple_GET_SIZE(returned) == PyTuple_GET_SIZE(gradients);
    if (!fits) return PyErr_SetString(PyExc_RuntimeError, "a hook returns another number of gradients"), false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(gradients); ++i) {
      PyObject *a = PyTuple_GET_ITEM(gradients, i), *b = PyTuple_GET_ITEM(returned, i);
      if (b != Py_None && !may_replace_gradient(a, b)) return false;
    }
    return true;
  }

  // The hooks of a leaf of the program: each call has the same ones.
  bool know(PyObject* leaf, PyObject* hooks, GradientPart part) {
    const int source = t_.sources.find(t_.objects.guard_flags(leaf));
    if (source < 0) return t_.graph_break(Break::TensorNotReached) != nullptr;
    auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(leaf));
    return t_.tracker.note(hooks, t_.sources.add(SourceKind::Gradient, source, part, type)) &&
           t_.containers.track_contents(hooks, 1);
  }

  Trace& t_;
  const bool creates_graph_;
};

// Whether the trace has made the tensor, and it requires a gradient.
bool is_new_with_gradient(Trace& t, PyObject* x) {
  return is_tensor(x) && is_traced(x) && is_base_tensor(x) && t.sources.find(t.tensors.held_by_program(x)) < 0 &&
         requires_grad(x);
}

// Notes that such a tensor gets a hook. False: the trace has ended.
bool may_have_hook(Trace& t, PyObject* tensor, bool keeps_gradient) {
  if (!t.settings.gradients) return t.graph_break(need_gradients("a tensor gets a hook on its gradient")) != nullptr;
  return note_hook(tensor, keeps_gradient) || t.graph_break(trace_failure()) != nullptr;
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
  Pass pass(t, call->creates_graph);
  const std::optional<std::vector<Object>> found = trace_backward(*call, pass);
  if (!found) {
    const Reason why = trace_failure();
    PyObject* raised = PyErr_Occurred();  // by a hook
    return t.graph_break(
        why.empty() && raised ? reason_for(Break::Raised, reinterpret_cast<PyTypeObject*>(raised)->tp_name) : why);
  }
  if (call->accumulates) return Py_NewRef(Py_None);
  Object out = Object::take(PyTuple_New(static_cast<Py_ssize_t>(found->size())));
  for (size_t i = 0; out && i < found->size(); ++i)
    PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), Py_NewRef((*found)[i].get()));
  return out.release();
}

// Tensor.register_hook and Tensor.register_post_accumulate_grad_hook of tensors that the trace has made: PyTorch's own
// code puts the hook on the fake tensor.
Result register_hook(Trace& t, const Call& c) {
  if (c.n == 0 || c.all() != 2 || !is_new_with_gradient(t, c.args[0])) return std::nullopt;
  if (!may_have_hook(t, c.args[0], false)) return nullptr;
  const HookOff off;
  return PyObject_Vectorcall(c.function, c.args, static_cast<size_t>(c.n), c.names);
}

// register_hook and register_prehook of the node of a torch.autograd.Function that the trace has called.
Result register_node_hook(Trace& t, const Call& c) {
  if (!c.owner() || c.named() > 0 || c.rest_count() != 1) return std::nullopt;
  if (!t.settings.gradients) return t.graph_break(need_gradients("a node of autograd gets a hook"));
  if (!note_node_hook(c.owner())) return t.graph_break(trace_failure());
  const HookOff off;
  return PyObject_Vectorcall(c.function, c.args, static_cast<size_t>(c.n), c.names);
}

Result retain_gradient(Trace& t, const Call& c) {
  if (!c.owner() || c.named() > 0 || c.rest_count() > 0 || !is_tensor(c.owner())) return std::nullopt;
  if (is_new_with_gradient(t, c.owner())) {
    if (is_leaf(c.owner())) return Py_NewRef(Py_None);
    return may_have_hook(t, c.owner(), true) ? t.calls.plainly(c) : nullptr;
  }
  PyObject* const real = t.objects.guard_flags(c.owner());
  if (is_traced(real) || !requires_grad(real) || !is_leaf(real)) return std::nullopt;
  return Py_NewRef(Py_None);
}

}  // namespace vesta::capture::handlers
