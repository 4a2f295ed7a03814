// Calls of a class, and class statements. If the program never reads the class that a statement makes, only the trace
// makes it, and compiled calls leave it out. If the program reads the class, the graph breaks before the statement:
// guards and reconstruction know a class by its identity, and every call makes another class.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/symbolic_scalar.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/class_sets.h"
#include "capture/python/values/classes.h"
#include "capture/python/values/scalar.h"

namespace vesta::capture {
namespace {

// Classes whose constructors read numbers and make nothing that keeps symbolic ones.
bool takes_plain_numbers(PyTypeObject* type) {
  return type == &PyUnicode_Type || type == &PyFloat_Type || type == &PySet_Type || type == &PyFrozenSet_Type ||
         type == &PyDict_Type || type == &PyComplex_Type || type == &PyBytes_Type;
}

// Iterators of C that read the items of their arguments, and nothing of what those hold.
bool only_iterates(PyTypeObject* type) {
  return type == &PyZip_Type || type == &PyEnum_Type || type == &PyReversed_Type;
}

// What `type(x)` says of an object in a trace: the class of the number that a symbolic one stands for.
PyTypeObject* shown_type(PyObject* x) {
  if (is_symbolic_int(x)) return &PyLong_Type;
  return Py_TYPE(is_symbolic_scalar(x) ? scalar_value(x) : x);
}

// A metaclass that runs no code of the program and remembers nothing that a program reads.
bool is_plain_metaclass(PyTypeObject* type) {
  return type == &PyType_Type || is_in(type, ClassSet::AutogradFunctionMeta);
}

}  // namespace

PyObject* Calls::call_class(const Call& c) {
  PyObject* f = c.function;
  if (!t_.objects.may_read_class(f)) return nullptr;
  auto* type = reinterpret_cast<PyTypeObject*>(f);
  if (type == &PyType_Type && c.all() == 1) return Py_NewRef(reinterpret_cast<PyObject*>(shown_type(c.args[0])));
  if (PyType_IsSubtype(type, &PyType_Type)) return t_.graph_break(Break::ClassMade);
  if (type == &PyLong_Type && c.all() == 1 && is_symbolic_int(c.args[0])) return Py_NewRef(c.args[0]);
  if (c.named() == 0 && (type == tensor_class() || is_tensor_type(f))) {
    PyObject* x = legacy_tensor(t_, f, c.args, c.n);
    if (x || t_.ended() || PyErr_Occurred()) return x;
  }
  const Callable known = known_callable(f);
  if (PyObject* x = t_.numbers.call(known, f, c.args, c.n, c.names); x || t_.ended() || PyErr_Occurred()) return x;
  if (is_python_class(type) && _PyType_Lookup(type, "__del__"_name))
    return t_.graph_break(Break::ClassWithDel, name_of_callable(f));
  static PyObject* const parts[] = {"__new__"_name, "__init__"_name, "__call__"_name};
  for (PyObject* part : parts) t_.guards.add_class(part == parts[2] ? Py_TYPE(type) : type, part);
  if (is_numpy_scalar_type(type)) {
    for (Py_ssize_t i = 0; i < c.all(); ++i)
      if (!is_scalar(c.args[i]) && !is_symbolic_int(c.args[i]) && !is_numpy_scalar(c.args[i]))
        return t_.graph_break(Break::NumPyArguments);
    return with_numbers(c);
  }
  if (known.effect == Effect::Unknown) return t_.graph_break(Break::ClassUnknown, name_of_callable(f));
  if (!is_python_class(type) && !may_refer(c)) return nullptr;
  const bool has_c_base = !is_python_class(type) || type->tp_base != &PyBaseObject_Type;
  if (only_iterates(type)) {
    for (Py_ssize_t i = 0; i < c.all(); ++i)
      if (!t_.items.may_iterate(c.args[i]) || !may_pass(c.args[i])) return nullptr;
  } else if (has_c_base && !may_read_arguments(c)) {
    return nullptr;
  }
  if (!guard_compared(known, c)) return nullptr;
  return takes_plain_numbers(type) ? with_numbers(c) : plainly(c);
}

bool Calls::may_refer(const Call& c) {
  // The class, or the `__new__` of one, whose first argument is the class.
  const bool by_new = PyCFunction_Check(c.function);
  PyObject* type = by_new ? reinterpret_cast<PyCFunctionObject*>(c.function)->m_self : c.function;
  if (!type || !PyType_Check(type) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), &_PyWeakref_RefType))
    return true;
  PyObject* const* rest = by_new ? c.args + 1 : c.args;
  const Py_ssize_t count = by_new ? c.n - 1 : c.n;
  if (count > 1 && rest[1] != Py_None) return t_.graph_break(Break::WeakReferenceCallback), false;
  if (count > 0 && t_.sources.find(t_.tensors.real_of(rest[0]) ? t_.tensors.real_of(rest[0]) : rest[0]) < 0)
    return t_.graph_break(Break::WeakReferenceToNewObject), false;
  return true;
}

namespace handlers {

Result build_class(Trace& t, const Call& c) {
  if (c.names || c.n < 2 || !PyFunction_Check(c.args[0]) || !t.made.contains(c.args[0]))
    return t.graph_break(Break::ClassMade);
  for (Py_ssize_t i = 2; i < c.n; ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(c.args[i]);
    if (!PyType_Check(c.args[i]) || t.made.contains(c.args[i]) || !is_plain_metaclass(Py_TYPE(base)))
      return t.graph_break(Break::ClassOfMetaclass);
    t.guards.add_class(base, "__init_subclass__"_name);
    if (_PyType_Lookup(base, "__init_subclass__"_name) != _PyType_Lookup(&PyBaseObject_Type, "__init_subclass__"_name))
      return t.graph_break(Break::ClassWithInitSubclass);
  }
  PyObject* x = t.tracker.finish_call(PyObject_Vectorcall(c.function, c.args, static_cast<size_t>(c.n), nullptr));
  if (x) t.made.add(x);
  return x;
}

}  // namespace handlers

}  // namespace vesta::capture
