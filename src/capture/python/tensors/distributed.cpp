#include "capture/python/tensors/distributed.h"

#include <pybind11/pybind11.h>

#include "capture/python/object.h"

namespace vesta::capture {

bool is_distributed() {
  const pybind11::gil_scoped_acquire gil;
  PyObject* const module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch.distributed");
  const Object ask = module ? Object::take(PyObject_GetAttrString(module, "is_initialized")) : Object();
  const Object answer = ask ? Object::take(PyObject_CallNoArgs(ask.get())) : Object();
  PyErr_Clear();
  return answer && answer.get() == Py_True;
}

}  // namespace vesta::capture
