#include "capture/python/tracer/leaf_gradients.h"

#include "capture/python/functions/functions.h"
#include "capture/python/functions/plain_objects.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture {
namespace {

// The program's tensor, borrowed; nullptr: it is none of the program's, or no leaf.
PyObject* leaf(Trace& t, PyObject* tensor) {
  PyObject* real = t.objects.guard_flags(tensor);
  if (is_traced(real) || t.sources.find(real) < 0 || !is_data(real)) return nullptr;
  const Object is_leaf = Object::take(PyObject_GetAttr(real, "is_leaf"_name));
  return is_leaf.get() == Py_True ? real : nullptr;
}

}  // namespace

PyObject* get_gradient(Trace& t, PyObject* tensor, const Callable& refused) {
  PyObject* real = leaf(t, tensor);
  if (!real) return PyErr_Clear(), t.graph_break(refused.refusal, "Tensor.grad", refused.reason);
  const Object now = Object::take(PyObject_GetAttr(real, "grad"_name));
  if (!now) return nullptr;
  if (t.log.find(real, UndoLog::kGradient)) return Py_NewRef(now.get());
  return t.tracker.track(now.get(), t.sources.add(SourceKind::Gradient, t.sources.find(real), 0,
                                                  reinterpret_cast<PyObject*>(Py_TYPE(real))));
}

int set_gradient(Trace& t, PyObject* tensor, PyObject* value) {
  PyObject* real = value == Py_None ? leaf(t, tensor) : nullptr;
  if (!real) return PyErr_Clear(), t.fail(Break::TensorAttributeSet);
  t.log.gradient(real);
  return PyObject_SetAttr(real, "grad"_name, value);
}

}  // namespace vesta::capture
