// Facts about classes and about where an object keeps its attributes. No Python code of the program runs in any of
// these functions, and none leaves an error set.
#pragma once

#include <Python.h>

namespace vesta::capture {

// A class that a class statement made: its objects begin as those of its C base do, and Python has the rest.
bool is_python_class(PyTypeObject* type);
// The first base of `type` (or `type` itself) that no class statement made.
PyTypeObject* c_base(PyTypeObject* type);
// Another number after each change of the class or of a base; 0: it has none yet. CPython 3.13 sets the flag no more.
inline unsigned assigned_version(PyTypeObject* type) {
  return PY_VERSION_HEX >= 0x030d0000 || (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
}
// Assigns it one, where CPython can: 0 otherwise.
unsigned version_of(PyTypeObject* type);
// A slot's function bound to an object, such as `(3).__add__`.
bool is_method_wrapper(PyObject* x);

// __dict__ of an instance, made if there is none yet; borrowed. nullptr: the class gives its objects none.
PyObject* instance_dict(PyObject* object);
bool is_bare(PyObject* object);  // it has no attributes of its own; no __dict__ is made

}  // namespace vesta::capture
