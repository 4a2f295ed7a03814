#include "capture/python/functions/resolve.h"

#include <torch/version.h>

#include "capture/python/values/class_sets.h"
#include "capture/python/values/classes.h"
#include "capture/python/values/names.h"

namespace vesta::capture {
namespace {

struct WrapperObject {  // method-wrapper: a slot descriptor bound to an object
  PyObject_HEAD PyWrapperDescrObject* descr;
  PyObject* self;
};

bool is_method(PyObject* x) { return Py_TYPE(x) == &PyMethodDescr_Type || Py_TYPE(x) == &PyClassMethodDescr_Type; }

bool is_cuda_build() {
  PyObject* c = imported_module("torch._C");
  return c && evaluate(c, "_has_cuda").get() == Py_True;
}

bool is_in_class(PyObject* x) {
  return is_method(x) || Py_TYPE(x) == &PyGetSetDescr_Type || Py_TYPE(x) == &PyWrapperDescr_Type;
}

// The method among the attributes of a class and its bases that is this function.
Object method_among_bases(PyTypeObject* type, PyObject* name, const void* key) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    Object found = attribute_of(PyTuple_GET_ITEM(type->tp_mro, i), name);
    if (found && is_in_class(found.get()) && key_of(found.get()) == key) return found;
  }
  return {};
}

}  // namespace

const void* key_of(PyObject* f) {
  if (PyCFunction_Check(f)) return reinterpret_cast<PyCFunctionObject*>(f)->m_ml;
  if (is_method(f)) return reinterpret_cast<PyMethodDescrObject*>(f)->d_method;
  if (Py_TYPE(f) == &PyGetSetDescr_Type) return reinterpret_cast<PyGetSetDescrObject*>(f)->d_getset;
  if (is_method_wrapper(f)) return reinterpret_cast<WrapperObject*>(f)->descr;
  return f;
}

const char* name_in_c(PyObject* f) {
  if (PyCFunction_Check(f)) return reinterpret_cast<PyCFunctionObject*>(f)->m_ml->ml_name;
  if (is_method_wrapper(f)) f = reinterpret_cast<PyObject*>(reinterpret_cast<WrapperObject*>(f)->descr);
  return is_in_class(f) ? PyUnicode_AsUTF8(reinterpret_cast<PyDescrObject*>(f)->d_name) : nullptr;
}

bool is_here(const Versions& v) {
  static_assert(PY_MAJOR_VERSION == 3 && TORCH_VERSION_MAJOR == 2);
  if (v.of == Versions::Of::CudaBuild) return is_cuda_build();
  const int minor = v.of == Versions::Of::Python ? PY_MINOR_VERSION : TORCH_VERSION_MINOR;
  return v.first <= minor && minor <= v.last;
}

Object attribute_of(PyObject* owner, PyObject* name) {
  if (PyModule_Check(owner)) return Object::share(PyDict_GetItem(PyModule_GetDict(owner), name));
  return Object::share(
      _PyType_Lookup(PyType_Check(owner) ? reinterpret_cast<PyTypeObject*>(owner) : Py_TYPE(owner), name));
}

Object c_function_of(PyObject* attribute) {
  if (Py_TYPE(attribute) == &PyStaticMethod_Type) {
    Object f = Object::take(PyObject_GetAttrString(attribute, "__func__"));
    return f && PyCFunction_Check(f.get()) ? f : Object();
  }
  const bool is_known_kind =
      PyCFunction_Check(attribute) || is_in_class(attribute) || is_of(attribute, ClassSet::NumpyFunctions);
  return is_known_kind ? Object::share(attribute) : Object();
}

std::vector<Object> functions_of(const FunctionRow& row, std::string_view name) {
  std::vector<Object> out;
  PyObject* module = imported_module(row.module);
  const Object text = Object::take(PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
  if (!module || !text) return out;
  const auto add = [&](const Object& owner) {
    const Object attribute = owner ? attribute_of(owner.get(), text.get()) : Object();
    if (Object function = attribute ? c_function_of(attribute.get()) : Object()) out.push_back(std::move(function));
  };
  if (*row.classes == 0) add(Object::share(module));
  each_name(row.classes, [&](std::string_view owner) { add(evaluate(module, std::string(owner))); });
  return out;
}

Object method_of_known_class(PyObject* f, PyObject* name) {
  Object method;
  if (is_method_wrapper(f)) {
    method = Object::share(reinterpret_cast<PyObject*>(reinterpret_cast<WrapperObject*>(f)->descr));
  } else if (is_in_class(f)) {
    method = Object::share(f);
  } else if (PyObject* self = PyCFunction_Check(f) ? PyCFunction_GET_SELF(f) : nullptr) {
    method = method_among_bases(Py_TYPE(self), name, key_of(f));
    if (!method && PyType_Check(self))
      method = method_among_bases(reinterpret_cast<PyTypeObject*>(self), name, key_of(f));
  }
  return method && is_known_class(reinterpret_cast<PyDescrObject*>(method.get())->d_type) ? method : Object();
}

}  // namespace vesta::capture
