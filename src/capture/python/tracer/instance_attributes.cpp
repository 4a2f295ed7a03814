// Attributes of instances: what the class has is a guard on the class, what the instance has is a source.
#include <Python.h>

#include <structmember.h>

#include "capture/python/functions/functions.h"
#include "capture/python/hook/hook.h"
#include "capture/python/sources/cached_result.h"
#include "capture/python/tracer/descriptors.h"
#include "capture/python/tracer/module_items.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/class_sets.h"
#include "capture/python/values/classes.h"

namespace vesta::capture {
namespace {

// The item of a named tuple that a field's descriptor reads, or -1.
Py_ssize_t index_of_field(PyObject* descriptor) {
  const HookOff off;
  const Object parts = Object::take(PyObject_CallMethod(descriptor, "__reduce__", nullptr));
  PyObject* arguments = parts && PyTuple_Check(parts.get()) ? PyTuple_GET_ITEM(parts.get(), 1) : nullptr;
  PyObject* index = arguments && PyTuple_Check(arguments) ? PyTuple_GET_ITEM(arguments, 0) : nullptr;
  return index && PyLong_Check(index) ? PyLong_AsSsize_t(index) : -1;
}

}  // namespace

Object c_function_of(PyObject* property, const char* part) {
  if (!PyObject_TypeCheck(property, &PyProperty_Type)) return {};
  Object f = attribute_of(property, part);
  return !f || f.get() == Py_None || PyFunction_Check(f.get()) ? Object() : f;
}

int ObjectModel::dict_source(PyObject* owner) {
  const int source = t_.sources.find(owner);
  PyObject* dict = source < 0 ? nullptr : instance_dict(owner);
  if (!dict) return -1;
  t_.sources.know(dict, t_.sources.add(SourceKind::InstanceDict, source));
  return t_.sources.find(dict);
}

PyObject* ObjectModel::instance_attr(PyObject* owner, PyObject* name) {
  PyTypeObject* type = Py_TYPE(owner);
  for (PyObject* read : {name, "__getattribute__"_name, "__getattr__"_name}) t_.guards.add_class(type, read);
  if (named(name, "__dict__")) {
    PyObject* dict = instance_dict(owner);
    if (!dict) return PyObject_GenericGetAttr(owner, name);
    dict_source(owner);
    return Py_NewRef(dict);
  }
  if (named(name, "__class__") && !(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return PyObject_GenericGetAttr(owner, name);
  const Object attribute = Object::share(_PyType_Lookup(type, name));
  PyTypeObject* kind = attribute ? Py_TYPE(attribute.get()) : nullptr;
  if (kind && kind->tp_descr_get && kind->tp_descr_set) return data_descriptor_attr(owner, name, attribute.get());
  if (PyObject* dict = instance_dict(owner)) {
    if (const auto x = t_.containers.read_dict(dict, dict_source(owner), name)) return *x;
  }
  if (attribute) return bind(attribute.get(), owner, type);
  const Object hook = Object::share(_PyType_Lookup(type, "__getattr__"_name));
  if (!hook) return t_.tracker.finish_call(PyObject_GetAttr(owner, name));  // raises
  if (is_getattr_of_modules(hook.get())) {
    if (const auto x = module_item(t_, owner, name, hook.get())) return *x;
  }
  if (!PyFunction_Check(hook.get()) && !is_method_of_c(hook.get()))
    return t_.graph_break(Break::HookObject, "__getattr__");
  PyObject* args[] = {owner, name};
  return t_.calls.call(hook.get(), args, 2, nullptr);
}

PyObject* ObjectModel::get_plain_attr(PyObject* owner, PyObject* name) {
  PyTypeObject* type = Py_TYPE(owner);
  t_.guards.add_class(type, name);
  if (_PyType_Lookup(type, name)) return instance_attr(owner, name);
  if (PyObject* dict = instance_dict(owner)) {
    if (const auto x = t_.containers.read_dict(dict, dict_source(owner), name)) return *x;
  }
  return PyObject_GenericGetAttr(owner, name);
}

PyObject* ObjectModel::data_descriptor_attr(PyObject* owner, PyObject* name, PyObject* descriptor) {
  PyTypeObject* type = Py_TYPE(owner);
  if (Py_TYPE(descriptor) == &PyMemberDescr_Type) return slot_attr(owner, name, descriptor);
  if (Py_TYPE(descriptor) == &PyGetSetDescr_Type) {
    if (!is_known_class(type) && !is_python_class(type))
      return t_.graph_break(Break::ComputedAttributeRead, type->tp_name);
    if (!t_.tracker.operand(owner)) return nullptr;
  }
  PyObject* x = bind(descriptor, owner, type);
  if (x && PyCode_Check(owner)) {
    // Tuples of names: some versions of Python make them anew at each read, in others the code keeps them.
    const Object again = Object::take(PyObject_GenericGetAttr(owner, name));
    if (again.get() == x) t_.functions.note_constant(t_.sources.keep(x));
    PyErr_Clear();
  }
  return x;
}

PyObject* ObjectModel::slot_attr(PyObject* owner, PyObject* name, PyObject* descriptor) {
  const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
  const int source = t_.sources.find(owner);
  if (!t_.tracker.operand(owner)) return nullptr;
  if (source >= 0 && (member->type == T_OBJECT_EX || member->type == T_OBJECT)) {
    const int offset = static_cast<int>(member->offset);
    PyObject* now = member_at(owner, offset);
    const UndoLog::Entry* e = t_.log.find(owner, offset);
    if (e && e->before.get() != now) return PyObject_GenericGetAttr(owner, name);
    const int slot = t_.sources.add(SourceKind::Member, source, offset, name);
    if (now) return t_.tracker.track(now, slot);
    t_.guards.add(Check::Absent, slot);
  }
  return PyObject_GenericGetAttr(owner, name);
}

PyObject* ObjectModel::bind(PyObject* attribute, PyObject* owner, PyTypeObject* type) {
  PyTypeObject* kind = Py_TYPE(attribute);
  const descrgetfunc get = kind->tp_descr_get;
  if (!get) return t_.tracker.track_constant(attribute);
  const bool is_of_python = PyFunction_Check(attribute) || is_python_class(kind);
  if (is_in(kind, ClassSet::TupleFields)) {
    const Py_ssize_t i = index_of_field(attribute);
    const int source = t_.sources.find(owner);
    if (source >= 0 && PyTuple_Check(owner) && i >= 0 && i < PyTuple_GET_SIZE(owner))
      return t_.tracker.track(PyTuple_GET_ITEM(owner, i), t_.sources.item(source, i));
  } else if (!is_of_python && !is_known_class(kind) && !is_cached_function(attribute) &&
             !PyCFunction_Check(attribute)) {
    return t_.graph_break(Break::DescriptorRead, kind->tp_name);
  }
  if (const Object getter = owner ? c_function_of(attribute, "fget") : Object()) {
    PyObject* args[] = {owner};
    return t_.calls.call(getter.get(), args, 1, nullptr);
  }
  if (is_of_python) t_.tracker.note_constant(attribute);
  return t_.tracker.finish_call(get(attribute, owner, reinterpret_cast<PyObject*>(type)));
}

}  // namespace vesta::capture
