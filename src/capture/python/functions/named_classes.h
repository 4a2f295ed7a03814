// Classes of other modules that the capture treats in their own way, found by pointer. Nothing else in the capture
// compares a class by its name. No Python code runs, and no error is left set.
#pragma once

#include <Python.h>

namespace vesta::capture {

enum class NamedClass : unsigned char {
  TorchDevice,
  TorchDtype,
  TorchLayout,
  TorchMemoryFormat,
  TorchSize,
  TorchTensorType,  // torch.FloatTensor and its like are objects of this class
  AutogradFunctionMeta,
  Partial,         // functools.partial
  CachedFunction,  // what functools.lru_cache makes
  ItemGetter,      // operator.itemgetter
  TupleField,      // the descriptor of a field of a namedtuple
  Deque,
  DefaultDict,
  DictKeys,  // views of a dict
  DictValues,
  DictItems,
  NumpyGeneric,  // the base of numpy's scalars
  NumpyObject,   // a scalar that holds any object
  NumpyVoid,     // a scalar with fields
  NumpyUfunc,
  NumpyFunction,  // numpy's functions that other libraries may take over
};

// The class, borrowed; nullptr: its module has not been imported, or has no such class.
PyTypeObject* named_class(NamedClass which);
// Exactly this class, no subclass.
inline bool is_class(const PyTypeObject* type, NamedClass which) { return type == named_class(which); }
inline bool is_of_class(PyObject* x, NamedClass which) { return is_class(Py_TYPE(x), which); }
// A torch.device, dtype, layout or memory_format: immutable, compared by value.
bool is_tensor_property_class(const PyTypeObject* type);
inline bool is_tensor_property(PyObject* x) { return is_tensor_property_class(Py_TYPE(x)); }
// A class of the module itertools.
bool is_itertools_class(const PyTypeObject* type);

}  // namespace vesta::capture
