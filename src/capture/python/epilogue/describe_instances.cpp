#include <Python.h>

#include <structmember.h>

#include <utility>

#include "capture/python/epilogue/describe_kinds.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/classes.h"

namespace vesta::capture {

int describe_instance(Describer& d, PyObject* x) {
  PyTypeObject* type = Py_TYPE(x);
  PyTypeObject* base = c_base(type);
  if (base != &PyBaseObject_Type && base != &PyDict_Type && base != &PyODict_Type && base != &PyList_Type &&
      base != &PyTuple_Type && base != &PySet_Type && base != &PyFrozenSet_Type && base != &PyLong_Type &&
      base != &PyFloat_Type && base != &PyUnicode_Type)
    return d.fail(x, Break::NotRebuilt, type->tp_name);
  const int id = d.add(x, {Make::Instance, 0, d.keep(reinterpret_cast<PyObject*>(type)), {}});
  Reconstruction r = d[id];
  int payload = -1;
  if (base == &PyBaseObject_Type) {
    payload = d.add({Make::Null, 0, nullptr, {}});
  } else if (base == &PyDict_Type || base == &PyODict_Type) {
    payload = describe_dict(d, x, Make::Dict);
  } else if (base == &PyLong_Type || base == &PyFloat_Type || base == &PyUnicode_Type) {
    const Object plain = Object::take(base == &PyLong_Type    ? PyNumber_Long(x)
                                      : base == &PyFloat_Type ? PyFloat_FromDouble(PyFloat_AS_DOUBLE(x))
                                                              : PyUnicode_FromObject(x));
    if (!plain) return PyErr_Clear(), d.fail(x, Break::ValueNotRead, "a number");
    payload = d.constant(plain.get());
  } else {
    payload = describe_container(d, x);
  }
  if (payload < 0) return -1;
  r.parts.push_back(payload);
  if (PyObject* attributes = instance_dict(x)) {
    PyObject *key = nullptr, *item = nullptr;
    Py_ssize_t at = 0;
    std::vector<std::pair<PyObject*, PyObject*>> items;
    while (PyDict_Next(attributes, &at, &key, &item)) items.emplace_back(key, item);
    for (const auto& [k, v] : items) {
      if (!d.values({k, v}, r.parts)) return -1;
      ++r.index;
    }
  }
  for (PyTypeObject* t = type; t && is_python_class(t); t = t->tp_base) {
    const Object members = Object::take(PyDict_Values(t->tp_dict));
    for (PyObject* m : span_of(members.get())) {
      if (Py_TYPE(m) != &PyMemberDescr_Type) continue;
      const PyMemberDef* def = reinterpret_cast<PyMemberDescrObject*>(m)->d_member;
      if (def->type != T_OBJECT_EX) continue;
      const int v = d.value(member_at(x, def->offset));
      if (v < 0) return -1;
      r.parts.push_back(static_cast<int>(def->offset));
      r.parts.push_back(v);
    }
  }
  d[id] = std::move(r);
  return id;
}

int describe_function(Describer& d, PyObject* x) {
  auto* f = reinterpret_cast<PyFunctionObject*>(x);
  const int id = d.add(x, {Make::Function, 0, d.keep(f->func_code), {}});
  std::vector<int> parts;
  const Object annotations = attribute_of(x, "__annotations__");
#if PY_VERSION_HEX >= 0x030c0000
  PyObject* type_params = f->func_typeparams;
#else
  PyObject* type_params = nullptr;
#endif
  for (PyObject* part : {f->func_globals, f->func_qualname, f->func_defaults, f->func_kwdefaults, f->func_closure,
                         f->func_dict, annotations.get(), type_params, f->func_name, f->func_doc, f->func_module}) {
    // The globals of a function made here are those of a frame.
    const int p = part == f->func_globals ? d.constant(part) : d.value(part);
    if (p < 0) return -1;
    parts.push_back(p);
  }
  d[id].parts = std::move(parts);
  return id;
}

int describe_subclass(Describer& d, PyObject* x, int tensor) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(x));
  if (d.trace.made.contains(type)) return d.fail(x, Break::NewTypeNotRebuilt, "a tensor");
  PyObject* dict = instance_dict(x);
  const int attributes = dict ? d.value(dict) : d.add({Make::Null, 0, nullptr, {}});
  return attributes < 0 ? -1 : d.add({Make::Subclass, 0, nullptr, {tensor, d.constant(type), attributes}});
}

}  // namespace vesta::capture
