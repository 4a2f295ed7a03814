// Writes to attributes: to slots and to the dicts of instances, modules and functions.
#include <Python.h>

#include <structmember.h>

#include "capture/python/functions/functions.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/descriptors.h"
#include "capture/python/tracer/leaf_gradients.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/classes.h"

namespace vesta::capture {

int ObjectModel::set_attr(PyObject* owner, PyObject* name, PyObject* value) {
  if (t_.ended()) return -1;
  PyTypeObject* type = Py_TYPE(owner);
  if (is_tensor(owner)) return set_tensor_attr(owner, name, value);
  if (PyType_Check(owner)) return t_.fail(Break::ClassAttributeSet);
  if (PyModule_CheckExact(owner)) {
    PyObject* dict = PyModule_GetDict(owner);
    t_.tracker.constant_source(dict);
    return t_.containers.before_write_key(dict, name, value == nullptr) ? PyObject_SetAttr(owner, name, value) : -1;
  }
  if (PyFunction_Check(owner))
    return t_.sources.find(owner) >= 0 ? t_.fail(Break::FunctionAttributeSet) : PyObject_SetAttr(owner, name, value);
  const bool is_plain = type->tp_setattro == PyObject_GenericSetAttr;
  if (!is_python_class(type) && !(is_plain && is_known_class(type)))
    return t_.fail(Break::UnknownAttributeSet, type->tp_name);
  return is_plain ? set_plain_attr(owner, name, value) : set_attr_by_hook(owner, name, value);
}

int ObjectModel::set_plain_attr(PyObject* owner, PyObject* name, PyObject* value) {
  PyTypeObject* type = Py_TYPE(owner);
  t_.guards.add_class(type, name);
  if (PyObject* attribute = _PyType_Lookup(type, name); attribute && Py_TYPE(attribute)->tp_descr_set) {
    if (Py_TYPE(attribute) == &PyMemberDescr_Type) {
      const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(attribute)->d_member;
      if (member->type != T_OBJECT_EX && member->type != T_OBJECT) return t_.fail(Break::MemberSet);
      t_.log.member(owner, static_cast<int>(member->offset));
    } else if (Py_TYPE(attribute) == &PyGetSetDescr_Type && t_.sources.find(owner) >= 0) {
      return t_.fail(Break::ComputedAttributeSet, PyUnicode_AsUTF8(name), type->tp_name);
    } else if (c_function_of(attribute, value ? "fset" : "fdel")) {
      return t_.fail(Break::AttributeSetByC, PyUnicode_AsUTF8(name));
    } else if (!PyFunction_Check(attribute)) {
      t_.tracker.note_constant(attribute);
    }
    return PyObject_GenericSetAttr(owner, name, value);
  }
  if (PyObject* dict = instance_dict(owner)) {
    dict_source(owner);
    if (!t_.containers.before_write_key(dict, name, value == nullptr)) return -1;
  }
  return PyObject_GenericSetAttr(owner, name, value);
}

int ObjectModel::set_tensor_attr(PyObject* owner, PyObject* name, PyObject* value) {
  PyTypeObject* type = Py_TYPE(owner);
  if (named(name, "grad") && known_callable(_PyType_Lookup(type, name)).effect == Effect::Refused) {
    t_.guards.add_class(type, name);
    return set_gradient(t_, owner, value);
  }
  PyObject* const attribute = _PyType_Lookup(type, name);
  if (named(name, "data") && attribute && Py_TYPE(attribute) == &PyGetSetDescr_Type) {
    t_.guards.add_class(type, name);
    return set_data(t_, owner, value);
  }
  const bool flags = named(name, "requires_grad") && value && PyBool_Check(value);
  if (flags && known_callable(_PyType_Lookup(type, name)).effect == Effect::Tensors) {
    t_.guards.add_class(type, name);
    if (const std::optional<bool> done = set_requires_grad(t_, owner, value == Py_True)) return *done ? 0 : -1;
  }
  // A tensor of a subclass that the trace made is rebuilt with its attributes. Those of a fake tensor would be lost.
  const bool is_new =
      is_traced(owner) && !is_base_tensor(owner) && t_.sources.find(owner) < 0 && !t_.tensors.real_of(owner);
  if (!is_new || type->tp_setattro != PyBaseObject_Type.tp_setattro || _PyType_Lookup(type, name))
    return t_.fail(Break::TensorAttributeSet);
  t_.guards.add_class(type, name);
  return t_.tracker.finish_status(PyObject_GenericSetAttr(owner, name, value));
}

int ObjectModel::set_attr_by_hook(PyObject* owner, PyObject* name, PyObject* value) {
  // The class's own __setattr__ or __delattr__, or one that it inherits.
  PyObject* const hook = value ? "__setattr__"_name : "__delattr__"_name;
  PyTypeObject* type = Py_TYPE(owner);
  t_.guards.add_class(type, hook);
  if (const Object f = Object::share(_PyType_Lookup(type, hook)); f && !PyFunction_Check(f.get())) {
    if (!is_method_of_c(f.get())) return t_.fail(Break::HookObject, value ? "__setattr__" : "__delattr__");
    PyObject* args[] = {owner, name, value};
    return Object::take(t_.calls.call(f.get(), args, value ? 3 : 2, nullptr)) ? 0 : -1;
  }
  const int status = PyObject_SetAttr(owner, name, value);
  return status < 0 || t_.ended() ? (t_.tracker.finish_call(nullptr), -1) : status;
}

}  // namespace vesta::capture
