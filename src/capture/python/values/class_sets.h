// Classes of Python, torch and numpy that the capture treats in their own way, found by pointer: nothing else compares
// a class by its name. A class of a module that the program has not imported is in no set yet. No Python code of the
// program runs, and no error is left set.
#pragma once

#include <Python.h>

namespace vesta::capture {

enum class ClassSet : unsigned char {
  TensorProperties,      // torch.device, dtype, layout, memory_format: immutable, compared by value
  TorchSize,             // torch.Size
  TensorTypes,           // the class of torch.FloatTensor and its like
  AutogradFunctionMeta,  // the metaclass of torch.autograd.Function
  Singletons,            // an object of these is the same object in each call
  EnumMeta,              // the metaclass of enumerations
  Closed,                // C code alone sees what an object of these holds: no guard can speak of it
  Partial,               // functools.partial
  CachedFunctions,       // what functools.lru_cache makes
  ItemGetter,            // operator.itemgetter
  TupleFields,           // the descriptor of a field of a namedtuple
  Deque,
  DefaultDict,
  DictViews,           // the keys, values and items of a dict
  ContainerIterators,  // iterators that show a container as it was when they were made
  Itertools,           // classes of the module itertools
  NumpyScalars,        // the base of numpy's scalars
  NumpyContainers,     // numpy's scalars that hold other objects
  NumpyFunctions,      // the classes of numpy's functions
  Modules,             // torch.nn.Module
};

// Exactly one of these classes, no subclass.
bool is_in(const PyTypeObject* type, ClassSet set);
inline bool is_of(PyObject* x, ClassSet set) { return is_in(Py_TYPE(x), set); }
// One of these classes, or a subclass.
bool is_derived_from(PyTypeObject* type, ClassSet set);

// A tuple, list, dict, set or frozenset, or an object of a subclass of these.
inline bool is_container(PyObject* x) {
  return PyTuple_Check(x) || PyList_Check(x) || PyDict_Check(x) || PyAnySet_Check(x);
}
inline bool is_container_or_deque(PyObject* x) { return is_container(x) || is_of(x, ClassSet::Deque); }

}  // namespace vesta::capture
