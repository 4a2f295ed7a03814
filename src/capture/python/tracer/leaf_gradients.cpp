#include "capture/python/tracer/leaf_gradients.h"

#include "capture/python/functions/functions.h"
#include "capture/python/functions/plain_objects.h"
#include "capture/python/tensors/inner_backward.h"
#include "capture/python/tensors/tensor_data.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture {
namespace {

// The tensor that has the gradient, borrowed: the program's, or one that the trace has made. nullptr: it is no leaf,
// and does not retain its gradient.
PyObject* owner_of_gradient(Trace& t, PyObject* tensor) {
  PyObject* real = t.objects.guard_flags(tensor);
  const bool made = is_traced(real) && t.settings.gradients && requires_grad(real);
  if (!made && (is_traced(real) || t.sources.find(real) < 0 || !is_data(real))) return nullptr;
  return (made ? keeps_gradient(real) : is_leaf(real)) ? real : nullptr;
}

// What the leaf has at this point of the trace; new.
PyObject* gradient_now(Trace& t, PyObject* real) {
  const Object now = Object::take(PyObject_GetAttr(real, "grad"_name));
  if (!now || is_traced(real) || t.log.find(real, UndoLog::kGradient)) return Py_XNewRef(now.get());
  return t.tracker.track(now.get(), t.sources.add(SourceKind::Gradient, t.sources.find(real), kGradient,
                                                  reinterpret_cast<PyObject*>(Py_TYPE(real))));
}

void put(Trace& t, PyObject* real, PyObject* gradient) {
  if (!is_traced(real)) t.log.gradient(real);
  put_gradient(real, gradient);
}

}  // namespace

PyObject* get_gradient(Trace& t, PyObject* tensor, const Callable& refused) {
  PyObject* real = owner_of_gradient(t, tensor);
  if (!real) return PyErr_Clear(), t.graph_break(refused.refusal, "Tensor.grad", refused.reason);
  return gradient_now(t, real);
}

int set_gradient(Trace& t, PyObject* tensor, PyObject* value) {
  const bool fits =
      value == Py_None || (value && is_traced(value) && is_base_tensor(value) && may_be_gradient(tensor, value));
  PyObject* real = fits ? owner_of_gradient(t, tensor) : nullptr;
  if (!real) return PyErr_Clear(), t.fail(Break::TensorAttributeSet);
  put(t, real, value);
  return 0;
}

std::optional<bool> set_requires_grad(Trace& t, PyObject* tensor, bool required) {
  PyObject* real = t.objects.guard_flags(tensor);
  if (is_traced(real) || t.sources.find(real) < 0 || !is_data(real) || !is_leaf(real) || !may_require_grad(real))
    return std::nullopt;
  if (requires_grad(real) == required) return true;
  if (!t.settings.gradients) return t.graph_break(need_gradients("the program changes a requires_grad")) != nullptr;
  // An input of the graph has the history that it begins with.
  if (!t.tensors.lift(tensor)) return false;
  t.log.requires_grad(real);
  if (require_gradient(real, required)) return true;
  return t.graph_break(trace_failure()) != nullptr;
}

int set_data(Trace& t, PyObject* tensor, PyObject* value) {
  PyObject* real = t.objects.guard_flags(tensor);
  if (!value || !is_tensor(value) || !is_base_tensor(value) || !is_data(real)) return t.fail(Break::TensorAttributeSet);
  if (!t.tensors.lift(value)) return -1;
  // PyTorch's own code replaces the data of a fake tensor.
  if (is_traced(real)) return t.tracker.finish_status(PyObject_SetAttr(real, "data"_name, value));
  if (t.sources.find(real) < 0) return t.fail(Break::TensorAttributeSet);
  if (!t.tensors.lift(tensor)) return -1;
  t.log.data(real);
  if (give_data(real, value)) return 0;
  return t.graph_break(trace_failure()), -1;
}

bool accumulate_gradient(Trace& t, PyObject* tensor, PyObject* gradient, bool creates_graph) {
  PyObject* real = owner_of_gradient(t, tensor);
  if (!real) return PyErr_Clear(), t.graph_break(Break::TensorNotReached) != nullptr;
  const Object now = Object::take(gradient_now(t, real));
  if (!now) return false;
  if (now.get() == Py_None) return put(t, real, gradient), true;
  if (!is_tensor(now.get()) || !is_base_tensor(now.get())) return t.graph_break(Break::TensorAttributeSet) != nullptr;
  const Object sum = Object::take(accumulated(now.get(), gradient, creates_graph));
  if (!sum) return t.graph_break(trace_failure()) != nullptr;
  if (sum.get() != now.get()) put(t, real, sum.get());
  return true;
}

}  // namespace vesta::capture
