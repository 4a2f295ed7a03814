// How one kind of object is described: each function returns the number of a reconstruction of x, or -1 after
// Describer::fail().
#pragma once

#include "capture/python/epilogue/describe.h"

namespace vesta::capture {

// ---- describe_containers.cpp
int describe_container(Describer& d, PyObject* x);  // of a list, tuple, set or frozenset: its items
int describe_dict(Describer& d, PyObject* x, Make make);
int describe_struct_sequence(Describer& d, PyObject* x, Py_ssize_t fields);
// How many fields the class has, hidden ones too, if PyStructSequence_NewType made it; else 0.
Py_ssize_t fields_of_struct_sequence(PyTypeObject* type);

// ---- describe_instances.cpp
int describe_instance(Describer& d, PyObject* x);              // of a class that a class statement made
int describe_function(Describer& d, PyObject* x);              // that the trace made
int describe_subclass(Describer& d, PyObject* x, int tensor);  // as as_subclass() of that tensor makes it

// ---- describe_c_objects.cpp
int describe_reduced(Describer& d, PyObject* x);                // by its __reduce__
int describe_bound(Describer& d, PyObject* x, PyObject* self);  // a method or slot written in C
int describe_dict_iterator(Describer& d, PyObject* x);
bool is_dict_iterator(PyTypeObject* type);

}  // namespace vesta::capture
