#include "capture/python/tracer/marks.h"

#include "capture/python/object.h"

namespace vesta::capture {
namespace {

void apply(PyObject* tensor, PyObject* name, bool value, std::vector<bool>& dynamic) {
  const Object set = Object::take(PyObject_GetAttr(tensor, name));
  if (set && PyAnySet_Check(set.get())) {
    for (size_t d = 0; d < dynamic.size(); ++d) {
      const Object number = Object::take(PyLong_FromSize_t(d));
      if (number && PySet_Contains(set.get(), number.get()) == 1) dynamic[d] = value;
    }
  }
  PyErr_Clear();
}

}  // namespace

void apply_marks(PyObject* tensor, std::vector<bool>& dynamic) {
  static PyObject* const as_static = PyUnicode_InternFromString("_dynamo_static_indices");
  static PyObject* const as_dynamic[] = {PyUnicode_InternFromString("_dynamo_dynamic_indices"),
                                         PyUnicode_InternFromString("_dynamo_weak_dynamic_indices"),
                                         PyUnicode_InternFromString("_dynamo_unbacked_indices")};
  apply(tensor, as_static, false, dynamic);
  for (PyObject* name : as_dynamic) apply(tensor, name, true, dynamic);
}

}  // namespace vesta::capture
