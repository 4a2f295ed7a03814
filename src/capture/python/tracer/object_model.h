// Attributes, descriptors and classes. Sources: object_model.cpp (modules, classes, functions),
// instance_attributes.cpp, tensor_attributes.cpp, attribute_writes.cpp.
//
// Guarantees: what a lookup finds on a class is a guard on the class; what it finds in an instance's dict or slot has a
// source and guards of its own. Code of the program that a lookup runs (properties, __getattr__) is traced; C code runs
// if it is known. Functions have the contracts of interpreter/operations.h.
#pragma once

#include <optional>

#include "capture/python/object.h"

namespace vesta::capture {

class Trace;

class ObjectModel {
 public:
  explicit ObjectModel(Trace& trace) : t_(trace) {}

  PyObject* get_attr(PyObject* owner, PyObject* name);
  int set_attr(PyObject* owner, PyObject* name, PyObject* value);
  // object.__getattribute__, without the class's own hooks.
  PyObject* get_plain_attr(PyObject* owner, PyObject* name);
  // object.__setattr__ and object.__delattr__ (`value` nullptr).
  int set_plain_attr(PyObject* owner, PyObject* name, PyObject* value);
  PyObject* lookup_special(PyObject* x, PyObject* name);
  int is_instance(PyObject* x, PyObject* classes);
  // The object whose class the program sees: an int for a symbolic one, the real tensor for a fake one, x itself.
  Object held_by_program(PyObject* x) const;
  // False (the trace has ended): x is a class that the trace made.
  bool may_read_class(PyObject* x);
  // The source of an instance's __dict__, or -1 for a new instance.
  int dict_source(PyObject* owner);
  // Guards the real tensor's flags (requires_grad, is_leaf, ...); the real tensor, borrowed.
  PyObject* guard_flags(PyObject* tensor);

 private:
  PyObject* instance_attr(PyObject* owner, PyObject* name);
  PyObject* data_descriptor_attr(PyObject* owner, PyObject* name, PyObject* descriptor);
  PyObject* slot_attr(PyObject* owner, PyObject* name, PyObject* descriptor);
  PyObject* module_attr(PyObject* owner, PyObject* name);
  PyObject* class_attr(PyObject* owner, PyObject* name);
  PyObject* super_attr(PyObject* owner, PyObject* name);
  PyObject* function_attr(PyObject* owner, PyObject* name);
  PyObject* tensor_attr(PyObject* owner, PyObject* name);
  PyObject* requires_grad_attr(PyObject* owner, PyObject* name);
  // What the real tensor's __dict__ has; nullptr without an error and *found false: nothing.
  std::optional<PyObject*> tensor_dict_attr(PyObject* owner, PyObject* name);
  PyObject* bind(PyObject* attribute, PyObject* owner, PyTypeObject* type);
  int set_tensor_attr(PyObject* owner, PyObject* name, PyObject* value);
  int set_attr_by_hook(PyObject* owner, PyObject* name, PyObject* value);

  Trace& t_;
};

}  // namespace vesta::capture
