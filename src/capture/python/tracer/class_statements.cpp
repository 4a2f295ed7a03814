// Class statements. If the program never reads the class, only the trace makes it, and compiled calls leave it out.
// If the program reads the class, the graph breaks before the statement: guards and reconstruction know a class by its
// identity, and every call makes another class.
#include "capture/python/tracer/trace.h"

namespace vesta::capture {
namespace {

// What makes a class of it is no code of the program, and remembers nothing that a program reads.
bool is_plain_metaclass(PyTypeObject* type) {
  static PyObject* const of_functions = [] {
    PyObject* module = PyImport_AddModule("torch.autograd.function");
    PyObject* found = module ? PyObject_GetAttrString(module, "FunctionMeta") : nullptr;
    PyErr_Clear();
    return found;
  }();
  return type == &PyType_Type || reinterpret_cast<PyObject*>(type) == of_functions;
}

}  // namespace

PyObject* Calls::build_class(PyObject* build, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  static PyObject* const hook = PyUnicode_InternFromString("__init_subclass__");
  if (names || n < 2 || !PyFunction_Check(args[0]) || !t_.made.contains(args[0]))
    return t_.graph_break(Break::ClassMade);
  for (Py_ssize_t i = 2; i < n; ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(args[i]);
    if (!PyType_Check(args[i]) || t_.made.contains(args[i]) || !is_plain_metaclass(Py_TYPE(base)))
      return t_.graph_break(Break::ClassOfMetaclass);
    t_.guards.add_class(base, hook);
    if (_PyType_Lookup(base, hook) != _PyType_Lookup(&PyBaseObject_Type, hook))
      return t_.graph_break(Break::ClassWithInitSubclass);
  }
  PyObject* x = t_.tracker.finish_call(PyObject_Vectorcall(build, args, static_cast<size_t>(n), nullptr));
  if (x) t_.made.add(x);
  return x;
}

}  // namespace vesta::capture
