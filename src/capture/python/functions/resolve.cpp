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

// The attribute of a module or a class, or of the class of another object, as it is there: a method is not bound.
Object raw_attribute(PyObject* owner, const std::string& text) {
  const Object name = Object::take(PyUnicode_InternFromString(text.c_str()));
  if (PyModule_Check(owner)) return Object::share(PyDict_GetItem(PyModule_GetDict(owner), name.get()));
  auto* type = PyType_Check(owner) ? reinterpret_cast<PyTypeObject*>(owner) : Py_TYPE(owner);
  return Object::share(_PyType_Lookup(type, name.get()));
}

// The method among the attributes of a class and its bases that is this function.
Object method_among_bases(PyTypeObject* type, const std::string& name, const void* key) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    Object found = raw_attribute(PyTuple_GET_ITEM(type->tp_mro, i), name);
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

Object c_function_of(PyObject* owner, const std::string& name) {
  const Object attribute = raw_attribute(owner, name);
  if (attribute && Py_TYPE(attribute.get()) == &PyStaticMethod_Type) {
    Object f = Object::take(PyObject_GetAttrString(attribute.get(), "__func__"));
    return f && PyCFunction_Check(f.get()) ? f : Object();
  }
  PyObject* x = attribute.get();
  const bool is_known_kind = x && (PyCFunction_Check(x) || is_in_class(x) || is_of(x, ClassSet::NumpyFunctions));
  return is_known_kind ? attribute : Object();
}

std::vector<Object> functions_of(const FunctionRow& row, const std::string& name) {
  std::vector<Object> out;
  PyObject* module = imported_module(row.module);
  const auto add = [&](PyObject* owner) {
    if (Object function = owner ? c_function_of(owner, name) : Object()) out.push_back(std::move(function));
  };
  if (*row.classes == 0) add(module);
  if (module) each_name(row.classes, [&](std::string_view o) { add(evaluate(module, std::string(o)).get()); });
  return out;
}

Object method_of_known_class(PyObject* f, const std::string& name) {
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
