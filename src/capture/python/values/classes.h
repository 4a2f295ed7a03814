// Facts about classes and about where an object keeps its attributes. No Python code of the program runs in any of
// these functions, and none leaves an error set.
#pragma once

#include <Python.h>

namespace vesta::capture {

// A class that a class statement made: its objects begin as those of its C base do, and Python has the rest.
bool is_python_class(PyTypeObject* type);
// The first base of `type` (or `type` itself) that no class statement made.
PyTypeObject* c_base(PyTypeObject* type);
// Another number after each change of the class or of a base; 0: the class has no number.
unsigned version_of(PyTypeObject* type);
// A slot's function bound to an object, such as `(3).__add__`.
bool is_method_wrapper(PyObject* x);

// __dict__ of an instance, made if there is none yet; borrowed. nullptr: the class gives its objects none.
PyObject* instance_dict(PyObject* object);
bool is_bare(PyObject* object);  // it has no attributes of its own; no __dict__ is made

}  // namespace vesta::capture
