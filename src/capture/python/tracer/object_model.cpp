#include "capture/python/tracer/object_model.h"

#include "capture/python/functions/functions.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/descriptors.h"
#include "capture/python/tracer/symbolic_scalar.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/classes.h"
#include "capture/python/values/scalar.h"

namespace vesta::capture {

PyObject* ObjectModel::get_attr(PyObject* owner, PyObject* name) {
  if (t_.ended()) return nullptr;
  PyTypeObject* type = Py_TYPE(owner);
  if (is_tensor(owner)) return tensor_attr(owner, name);
  if (PyModule_CheckExact(owner)) return module_attr(owner, name);
  if (PyType_Check(owner)) return may_read_class(owner) ? class_attr(owner, name) : nullptr;
  if (PyFunction_Check(owner)) return function_attr(owner, name);
  if (type == &PySuper_Type) return super_attr(owner, name);
  if (is_symbolic_int(owner)) {
    const Object number = Object::take(t_.numbers.plain(owner));
    return number ? t_.tracker.finish_call(PyObject_GetAttr(number.get(), name)) : nullptr;
  }
  if (is_scalar(owner) || is_symbolic(owner) || is_symbolic_scalar(owner))
    return t_.tracker.finish_call(PyObject_GetAttr(owner, name));
  if (type->tp_getattro == PyObject_GenericGetAttr) return instance_attr(owner, name);
  if (is_python_class(type)) {
    // A class with __getattr__ alone looks first as others do.
    t_.guards.add_class(type, "__getattribute__"_name);
    if (_PyType_Lookup(type, "__getattribute__"_name) == _PyType_Lookup(&PyBaseObject_Type, "__getattribute__"_name))
      return instance_attr(owner, name);
    return t_.tracker.finish_call(PyObject_GetAttr(owner, name));
  }
  if (is_known_class(type)) return t_.tracker.finish_call(PyObject_GetAttr(owner, name));
  return t_.graph_break(Break::AttributeOfUnknownClass, type->tp_name);
}

PyObject* ObjectModel::module_attr(PyObject* owner, PyObject* name) {
  PyObject* dict = PyModule_GetDict(owner);
  const int source = t_.tracker.constant_source(dict);
  if (named(name, "__dict__")) return Py_NewRef(dict);
  if (const auto x = t_.containers.read_dict(dict, source, name)) return *x;
  return t_.tracker.finish_call(PyObject_GetAttr(owner, name));
}

PyObject* ObjectModel::class_attr(PyObject* owner, PyObject* name) {
  auto* type = reinterpret_cast<PyTypeObject*>(owner);
  t_.guards.add_class(type, name);
  t_.guards.add_class(Py_TYPE(owner), name);
  if (named(name, "__dict__")) t_.guards.add_class_dict(type);
  // A descriptor of the program's own gives what it holds, as the members of enumerations are given.
  for (PyTypeObject* t : {type, Py_TYPE(owner)})
    if (PyObject* d = _PyType_Lookup(t, name); d && Py_TYPE(d)->tp_descr_get && is_python_class(Py_TYPE(d)))
      t_.tracker.note_constant(d);
  // Anything else that binding gives is new, or a fact of the class.
  Object x = Object::take(t_.tracker.finish_call(PyObject_GetAttr(owner, name)));
  if (!x) return nullptr;
  // The version of a class does not change when the class gets another name.
  const std::pair<const char*, size_t> names[] = {{"__name__", offsetof(PyHeapTypeObject, ht_name)},
                                                  {"__qualname__", offsetof(PyHeapTypeObject, ht_qualname)}};
  for (const auto& [part, offset] : names)
    if (named(name, part) && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) &&
        x.get() == member_at(owner, static_cast<Py_ssize_t>(offset)))
      t_.guards.add(Check::Equals,
                    t_.sources.add(SourceKind::Member, t_.sources.constant(owner), static_cast<int>(offset), name),
                    x.get());
  if (is_scalar(x.get()) || PyMethod_Check(x.get()) || PyCFunction_Check(x.get())) return x.release();
  const bool is_fact = x.get() == _PyType_Lookup(type, name) || PyFunction_Check(x.get()) || PyType_Check(x.get());
  if (!is_fact || (t_.sources.find(x.get()) >= 0 && !is_tensor(x.get()))) return x.release();
  return t_.tracker.track_constant(x.get());
}

PyObject* ObjectModel::super_attr(PyObject* owner, PyObject* name) {
  // super() looks into each class of the order after the given one.
  const Object type = attribute_of(owner, "__self_class__");
  if (type && PyType_Check(type.get())) {
    PyObject* mro = reinterpret_cast<PyTypeObject*>(type.get())->tp_mro;
    for (Py_ssize_t i = 0; mro && i < PyTuple_GET_SIZE(mro); ++i)
      t_.guards.add_class(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i)), name);
  }
  PyErr_Clear();
  return t_.tracker.finish_call(PyObject_GetAttr(owner, name));
}

PyObject* ObjectModel::function_attr(PyObject* owner, PyObject* name) {
  const int source = t_.sources.find(owner);
  if (source < 0) return instance_attr(owner, name);
  if (named(name, "__defaults__") || named(name, "__kwdefaults__")) {
    const bool positional = named(name, "__defaults__");
    PyObject* x = positional ? PyFunction_GET_DEFAULTS(owner) : PyFunction_GET_KW_DEFAULTS(owner);
    const int part = t_.sources.add(positional ? SourceKind::Defaults : SourceKind::KwDefaults, source);
    if (x) return t_.tracker.track(x, part);
    t_.guards.add(Check::Absent, part);
    Py_RETURN_NONE;
  }
  if (named(name, "__closure__") || named(name, "__globals__") || named(name, "__annotations__")) {
    Object x = Object::take(PyObject_GetAttr(owner, name));
    if (!x || x.get() == Py_None) return x.release();
    if (named(name, "__closure__")) return t_.graph_break(Break::FunctionClosure);
    t_.guards.add(Check::Is, source, owner);
    return t_.tracker.track_constant(x.get());
  }
  return instance_attr(owner, name);
}

PyObject* ObjectModel::lookup_special(PyObject* x, PyObject* name) {
  if (!t_.tracker.operand(x)) return nullptr;
  t_.guards.add_class(Py_TYPE(x), name);
  PyObject* method = t_.python.lookup_special(x, name);
  return method ? t_.tracker.finish_call(method) : nullptr;
}

// ---- classes

int ObjectModel::is_instance(PyObject* x, PyObject* classes) {
  if (t_.ended()) return -1;
  t_.guards.add_class(Py_TYPE(x));
  t_.guards.add_class_check(classes);
  return t_.tracker.finish_status(PyObject_IsInstance(held_by_program(x).get(), classes));
}

Object ObjectModel::held_by_program(PyObject* x) const {
  if (is_symbolic_int(x)) return Object::take(PyLong_FromLong(2));
  return Object::share(is_symbolic_scalar(x) ? scalar_value(x) : t_.tensors.held_by_program(x));
}

bool ObjectModel::may_read_class(PyObject* x) {
  if (!PyType_Check(x) || !t_.made.contains(x)) return true;
  return t_.graph_break(Break::NewClassUsed), false;
}

}  // namespace vesta::capture
