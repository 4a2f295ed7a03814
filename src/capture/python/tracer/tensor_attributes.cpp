// Attributes of tensors: properties are the fake tensor's, what a program has stored on a tensor is the real one's.
#include "capture/python/functions/functions.h"
#include "capture/python/functions/plain_objects.h"
#include "capture/python/tensors/inner_backward.h"
#include "capture/python/tensors/tensor_data.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/descriptors.h"
#include "capture/python/tracer/leaf_gradients.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/classes.h"

namespace vesta::capture {

PyObject* ObjectModel::tensor_attr(PyObject* owner, PyObject* name) {
  PyTypeObject* type = Py_TYPE(owner);
  t_.guards.add_class(type, name);
  t_.guards.add_special_methods(type);
  if (!is_method_of_c(_PyType_Lookup(type, "__getattribute__"_name)))
    return t_.tracker.finish_call(PyObject_GetAttr(owner, name));
  const Object attribute = Object::share(_PyType_Lookup(type, name));
  PyTypeObject* kind = attribute ? Py_TYPE(attribute.get()) : nullptr;
  if (attribute) {
    const Callable known = known_callable(attribute.get());
    if (known.effect == Effect::Refused && named(name, "grad")) return get_gradient(t_, owner, known);
    if (known.effect == Effect::Refused && !known.handler)
      return t_.graph_break(known.refusal, "Tensor." + std::string(PyUnicode_AsUTF8(name)), known.reason);
    if (PyFunction_Check(attribute.get()) || is_python_class(kind)) t_.tracker.note_constant(attribute.get());
  }
  if (!kind || !kind->tp_descr_set) {
    if (const auto x = tensor_dict_attr(owner, name)) return *x;
  }
  if (kind && !kind->tp_descr_get) return t_.tracker.track_constant(attribute.get());
  if (named(name, "__dict__")) return t_.graph_break(Break::TensorDict);
  if (!t_.tensors.lift(owner)) return nullptr;
  if (named(name, "requires_grad")) return requires_grad_attr(owner, name);
  if (named(name, "grad_fn") || named(name, "is_leaf")) {
    PyObject* real = guard_flags(owner);
    const bool is_known =
        named(name, "grad_fn") && t_.settings.gradients && is_traced(real) && has_function_node(owner);
    if (!is_known && (is_traced(real) || requires_grad(real)))
      return t_.graph_break(Break::TensorHistory, PyUnicode_AsUTF8(name));
  }
  if (named(name, "data") && kind == &PyGetSetDescr_Type && is_data(owner))
    return t_.may_run_operator() ? t_.tracker.finish_call(data_of(owner)) : nullptr;
  // Some properties are operators: x.T, x.real.
  return t_.may_run_operator() ? t_.tracker.finish_call(PyObject_GetAttr(owner, name)) : nullptr;
}

std::optional<PyObject*> ObjectModel::tensor_dict_attr(PyObject* owner, PyObject* name) {
  PyObject* real = t_.tensors.held_by_program(owner);
  const int source = t_.sources.find(real);
  if (source < 0) return std::nullopt;
  if (is_bare(real)) return t_.guards.add(Check::Bare, source), std::nullopt;
  PyObject* dict = instance_dict(real);
  return dict ? t_.containers.read_dict(dict, dict_source(real), name) : std::nullopt;
}

PyObject* ObjectModel::guard_flags(PyObject* tensor) {
  PyObject* real = t_.tensors.held_by_program(tensor);
  const bool has_changed = t_.log.find(real, UndoLog::kRequiresGrad) != nullptr;  // its flags are guarded
  if (const int source = t_.sources.find(real); source >= 0 && !is_traced(real) && !has_changed)
    t_.guards.add(Check::Tensor, source, nullptr, tensor_flags(real));
  return real;
}

PyObject* ObjectModel::requires_grad_attr(PyObject* owner, PyObject* name) {
  PyObject* real = guard_flags(owner);
  // Outside of gradient mode a fake tensor requires no gradient.
  if (!is_traced(real) && requires_grad(real)) Py_RETURN_TRUE;
  if (is_traced(real) && may_require_grad_unseen(real)) return t_.graph_break(Break::ViewRequiresGrad);
  return t_.tracker.finish_call(PyObject_GetAttr(owner, name));
}

}  // namespace vesta::capture
