#include "capture/python/saving/scalars.h"

#include "capture/python/object.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/values/class_sets.h"

namespace vesta::capture {

using program::Kind;
using program::Scalar;

std::optional<Scalar> scalar_of(PyObject* x) {
  if (x == Py_None) return Scalar();
  if (PyBool_Check(x)) return x == Py_True;
  if (PyLong_CheckExact(x)) {
    int overflow = 0;
    const int64_t v = PyLong_AsLongLongAndOverflow(x, &overflow);
    return overflow ? std::nullopt : std::optional<Scalar>(v);
  }
  if (PyFloat_CheckExact(x)) return PyFloat_AS_DOUBLE(x);
  if (PyComplex_CheckExact(x)) return std::complex<double>(PyComplex_RealAsDouble(x), PyComplex_ImagAsDouble(x));
  const bool named = is_of(x, ClassSet::TensorProperties);
  if (!named && !PyUnicode_CheckExact(x)) return std::nullopt;
  const Object text = Object::take(PyObject_Str(x));
  Py_ssize_t n = 0;
  const char* s = text ? PyUnicode_AsUTF8AndSize(text.get(), &n) : nullptr;
  if (!s) return PyErr_Clear(), std::nullopt;
  std::string copy(s, static_cast<size_t>(n));
  return named ? Scalar(program::Name{std::move(copy)}) : Scalar(std::move(copy));
}

std::optional<Kind> kind_of_class(PyObject* cls) {
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  if (PyType_IsSubtype(type, tensor_class())) return Kind::Tensor;
  if (type == Py_TYPE(Py_None)) return Kind::None;
  if (type == &PyBool_Type) return Kind::Bool;
  if (type == &PyLong_Type) return Kind::Int;
  if (type == &PyFloat_Type) return Kind::Float;
  if (type == &PyComplex_Type) return Kind::Complex;
  if (type == &PyUnicode_Type) return Kind::String;
  if (is_in(type, ClassSet::TensorProperties)) return Kind::Name;
  if (PyType_IsSubtype(type, &PyList_Type)) return Kind::List;
  if (PyType_IsSubtype(type, &PyTuple_Type)) return Kind::Tuple;
  if (PyType_IsSubtype(type, &PyDict_Type)) return Kind::Dict;
  // Objects of a class statement, dataclasses mostly, travel as dicts of their attributes.
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) && PyType_Check(cls) && !PyType_IsSubtype(type, &PyType_Type))
    return Kind::Dict;
  return std::nullopt;
}

}  // namespace vesta::capture
