#include "capture/python/values/keys.h"

#include "capture/python/object.h"
#include "capture/python/values/classes.h"
#include "capture/python/values/scalar.h"

namespace vesta::capture {

bool is_plain_key(PyObject* x) {
  if (PyFunction_Check(x) || PyCFunction_Check(x)) return true;
  for (PyTypeObject* type : {&PyMethodDescr_Type, &PyWrapperDescr_Type, &PyGetSetDescr_Type, &PyMemberDescr_Type})
    if (Py_TYPE(x) == type) return true;
  if (is_method_wrapper(x)) return true;
  return PyType_Check(x) && Py_TYPE(x)->tp_hash == PyType_Type.tp_hash &&
         Py_TYPE(x)->tp_richcompare == PyType_Type.tp_richcompare;
}

bool holds_plain_keys(PyObject* set) {
  const Object items = Object::take(PyObject_GetIter(set));
  while (items) {
    const Object item = Object::take(PyIter_Next(items.get()));
    if (!item) break;
    if (!is_scalar(item.get()) && !is_plain_key(item.get())) return false;
  }
  PyErr_Clear();
  return true;
}

PyObject* keys_of(PyObject* dict) {
  const bool ordered = PyODict_Check(dict);
  const Object keys = Object::take(
      ordered ? PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyODict_Type), "keys", "O", dict) : PyDict_Keys(dict));
  return keys ? PySequence_Tuple(keys.get()) : nullptr;
}

int set_dict_item(PyObject* dict, PyObject* key, PyObject* value) {
  return PyODict_Check(dict) ? PyODict_SetItem(dict, key, value) : PyDict_SetItem(dict, key, value);
}

int delete_dict_item(PyObject* dict, PyObject* key) {
  return PyODict_Check(dict) ? PyODict_DelItem(dict, key) : PyDict_DelItem(dict, key);
}

int clear_dict(PyObject* dict) {
  if (!PyODict_Check(dict)) return PyDict_Clear(dict), 0;
  return Object::take(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyODict_Type), "clear", "O", dict)) ? 0 : -1;
}

}  // namespace vesta::capture
