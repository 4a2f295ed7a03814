#include "capture/python/functions/plain_objects.h"

#include "capture/python/object.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/values/class_sets.h"
#include "capture/python/values/classes.h"
#include "capture/python/values/scalar.h"

namespace vesta::capture {
namespace {

// __torch_function__ of a class whose operators are a plain tensor's.
PyObject* disabled_torch_function() {
  static PyObject* const found =
      attribute_of(PyImport_AddModule("torch._C"), "_disabled_torch_function_impl").release();
  return found;
}

}  // namespace

bool is_c_iterator(PyObject* x) {
  PyTypeObject* base = c_base(Py_TYPE(x));
  return PyIter_Check(x) && base && base->tp_iternext;
}

bool is_imported(PyObject* module) {
  const Object name = Object::take(PyModule_GetNameObject(module));
  PyObject* found = name ? PyDict_GetItemWithError(PyImport_GetModuleDict(), name.get()) : nullptr;
  PyErr_Clear();
  return found == module;
}

bool is_data(PyObject* x, int depth) {
  if (is_scalar(x) || is_base_tensor(x) || is_symbolic(x)) return true;
  if (is_tensor(x)) {  // a Parameter
    PyObject* f = _PyType_Lookup(Py_TYPE(x), "__torch_function__"_name);
    return f && f == disabled_torch_function();
  }
  if (PyList_CheckExact(x) || (PyTuple_Check(x) && !is_python_class(Py_TYPE(x)))) {
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(x);
    if (depth == 0 || size > 16) return false;
    for (Py_ssize_t i = 0; i < size; ++i)
      if (!is_data(PySequence_Fast_GET_ITEM(x, i), depth - 1)) return false;
    return true;
  }
  return PySlice_Check(x) || is_of(x, ClassSet::TensorProperties);
}

}  // namespace vesta::capture
