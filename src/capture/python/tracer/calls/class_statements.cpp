// Class statements. If the program never reads the class, only the trace makes it, and compiled calls leave it out.
// If the program reads the class, the graph breaks before the statement: guards and reconstruction know a class by its
// identity, and every call makes another class.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/values/class_sets.h"
#include "capture/python/tracer/tracer.h"

namespace vesta::capture {
namespace {

// A metaclass that runs no code of the program and remembers nothing that a program reads.
bool is_plain_metaclass(PyTypeObject* type) {
  return type == &PyType_Type || is_in(type, ClassSet::AutogradFunctionMeta);
}

}  // namespace

bool Tracer::may_read_class(PyObject* x) {
  if (!PyType_Check(x) || !is_made(x)) return true;
  return graph_break(Break::NewClassUsed), false;
}

namespace handlers {

Result build_class(Tracer& t, const Call& c) {
  static PyObject* const hook = PyUnicode_InternFromString("__init_subclass__");
  if (c.names || c.n < 2 || !PyFunction_Check(c.args[0]) || !t.is_made(c.args[0]))
    return t.graph_break(Break::ClassMade);
  for (Py_ssize_t i = 2; i < c.n; ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(c.args[i]);
    if (!PyType_Check(c.args[i]) || t.is_made(c.args[i]) || !is_plain_metaclass(Py_TYPE(base)))
      return t.graph_break(Break::ClassOfMetaclass);
    t.guard_class(base, hook);
    if (_PyType_Lookup(base, hook) != _PyType_Lookup(&PyBaseObject_Type, hook))
      return t.graph_break(Break::ClassWithInitSubclass);
  }
  PyObject* x = t.finish_call(PyObject_Vectorcall(c.function, c.args, static_cast<size_t>(c.n), nullptr));
  if (x) t.made(x);
  return x;
}

}  // namespace handlers

}  // namespace vesta::capture
