#include "capture/python/tracer/gradient_model.h"

#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/trace.h"

namespace vesta::capture {

PyObject* GradientModel::leaf(PyObject* tensor) {
  PyObject* real = t_.objects.guard_flags(tensor);
  if (is_traced(real) || t_.sources.find(real) < 0) return nullptr;
  const Object is_leaf = Object::take(PyObject_GetAttr(real, "is_leaf"_name));
  return is_leaf.get() == Py_True ? real : nullptr;
}

PyObject* GradientModel::get(PyObject* tensor, const Callable& refused) {
  PyObject* real = leaf(tensor);
  if (!real) return PyErr_Clear(), t_.graph_break(refused.refusal, "Tensor.grad", refused.reason);
  const Object now = Object::take(PyObject_GetAttr(real, "grad"_name));
  if (!now) return nullptr;
  if (t_.log.find(real, UndoLog::kGradient)) return Py_NewRef(now.get());
  return t_.tracker.track(now.get(), t_.sources.add(SourceKind::Gradient, t_.sources.find(real)));
}

int GradientModel::set(PyObject* tensor, PyObject* value) {
  PyObject* real = value == Py_None ? leaf(tensor) : nullptr;
  if (!real) return PyErr_Clear(), t_.fail(Break::TensorAttributeSet);
  t_.log.gradient(real);
  return PyObject_SetAttr(real, "grad"_name, value);
}

}  // namespace vesta::capture
