// Class statements. If the program never reads the class, only the trace makes it, and compiled calls leave it out.
// If the program reads the class, the graph breaks before the statement: guards and reconstruction know a class by its
// identity, and every call makes another class.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/class_sets.h"

namespace vesta::capture {
namespace {

// A metaclass that runs no code of the program and remembers nothing that a program reads.
bool is_plain_metaclass(PyTypeObject* type) {
  return type == &PyType_Type || is_in(type, ClassSet::AutogradFunctionMeta);
}

}  // namespace

namespace handlers {

Result build_class(Trace& t, const Call& c) {
  static PyObject* const hook = PyUnicode_InternFromString("__init_subclass__");
  if (c.names || c.n < 2 || !PyFunction_Check(c.args[0]) || !t.made.contains(c.args[0]))
    return t.graph_break(Break::ClassMade);
  for (Py_ssize_t i = 2; i < c.n; ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(c.args[i]);
    if (!PyType_Check(c.args[i]) || t.made.contains(c.args[i]) || !is_plain_metaclass(Py_TYPE(base)))
      return t.graph_break(Break::ClassOfMetaclass);
    t.guards.add_class(base, hook);
    if (_PyType_Lookup(base, hook) != _PyType_Lookup(&PyBaseObject_Type, hook))
      return t.graph_break(Break::ClassWithInitSubclass);
  }
  PyObject* x = t.tracker.finish_call(PyObject_Vectorcall(c.function, c.args, static_cast<size_t>(c.n), nullptr));
  if (x) t.made.add(x);
  return x;
}

}  // namespace handlers

}  // namespace vesta::capture
