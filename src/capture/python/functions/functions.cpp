#include "capture/python/functions/functions.h"

#include "capture/python/object.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/values/classes.h"

namespace vesta::capture {
namespace {

// pybind11's functions are methods of an object whose class has a name that depends on pybind11's version.
bool is_bound_by_pybind(PyObject* f) {
  PyObject* self = PyCFunction_Check(f) ? PyCFunction_GET_SELF(f) : nullptr;
  return self && std::string_view(Py_TYPE(self)->tp_name).find("pybind11_detail_function_record") != std::string::npos;
}

// A special method of C under the name of another one, which writes: `__lshift__ = list.append`.
bool is_renamed_writer(PyObject* name, PyObject* f) {
  static PyObject* const by_attribute[] = {"__setattr__"_name, "__delattr__"_name};
  if (Py_TYPE(f) != &PyMethodDescr_Type && Py_TYPE(f) != &PyWrapperDescr_Type) return false;
  PyObject* own = reinterpret_cast<PyDescrObject*>(f)->d_name;
  if (!PyUnicode_Check(name) || PyUnicode_READ_CHAR(name, 0) != '_' || PyUnicode_Compare(own, name) == 0) return false;
  if (name == by_attribute[0] || name == by_attribute[1]) return false;  // those are called as what they are
  if (PyType_IsSubtype(tensor_class(), reinterpret_cast<PyDescrObject*>(f)->d_type)) return false;
  return !known_callable(f).reads();
}

}  // namespace

bool writes_by_operators(PyTypeObject* type) {
  for (PyObject* x : span_of(type->tp_mro)) {
    auto* base = reinterpret_cast<PyTypeObject*>(x);
    if (!is_python_class(base) || !base->tp_dict) continue;
    PyObject *name = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(base->tp_dict, &at, &name, &value);)
      if (is_renamed_writer(name, value)) return true;
  }
  return false;
}

std::string name_of_callable(PyObject* f) {
  if (!PyCFunction_Check(f) && !PyType_Check(f) && !PyFunction_Check(f) && Py_TYPE(f) != &PyMethodDescr_Type &&
      Py_TYPE(f) != &PyWrapperDescr_Type)
    return std::string("an object of class ") + Py_TYPE(f)->tp_name;
  std::string out;
  for (const char* part : {"__module__", is_bound_by_pybind(f) ? "__name__" : "__qualname__"}) {
    const Object x = attribute_of(f, part);
    const std::string_view text = utf8_of(x.get());
    if (text.empty() || text == "builtins") continue;
    if (!out.empty()) out += ".";
    out += text;
  }
  return out.empty() ? "a function" : out;
}

}  // namespace vesta::capture
