#include "capture/python/functions/resolve.h"

#include <torch/version.h>

#include "capture/python/values/class_sets.h"
#include "capture/python/values/classes.h"

namespace vesta::capture {
namespace {

struct WrapperObject {  // method-wrapper: a slot descriptor bound to an object
  PyObject_HEAD PyWrapperDescrObject* descr;
  PyObject* self;
};

bool is_method(PyObject* x) { return Py_TYPE(x) == &PyMethodDescr_Type || Py_TYPE(x) == &PyClassMethodDescr_Type; }

bool is_cuda_build() {
  const Object c = import_module("torch._C");
  const Object flag = c ? evaluate(c.get(), "_has_cuda") : Object();
  return flag.get() == Py_True;
}

}  // namespace

const void* key_of(PyObject* f) {
  if (PyCFunction_Check(f)) return reinterpret_cast<PyCFunctionObject*>(f)->m_ml;
  if (is_method(f)) return reinterpret_cast<PyMethodDescrObject*>(f)->d_method;
  if (Py_TYPE(f) == &PyGetSetDescr_Type) return reinterpret_cast<PyGetSetDescrObject*>(f)->d_getset;
  if (is_method_wrapper(f)) return reinterpret_cast<WrapperObject*>(f)->descr;
  return f;
}

Object import_module(const std::string& module) {
  Object found = Object::take(PyImport_ImportModule(module.c_str()));
  if (found) return found;
  PyErr_Clear();
  const size_t dot = module.rfind('.');
  const Object parent = dot == std::string::npos ? Object() : import_module(module.substr(0, dot));
  if (parent) found = Object::take(PyObject_GetAttrString(parent.get(), module.c_str() + dot + 1));
  PyErr_Clear();
  return found;
}

Object evaluate(PyObject* module, const std::string& name) {
  Object found;
  if (name.find('(') == std::string::npos) {
    found = Object::take(PyObject_GetAttrString(module, name.c_str()));
  } else if (const Object globals = Object::take(PyDict_New())) {
    PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins());
    found = Object::take(PyRun_String(name.c_str(), Py_eval_input, globals.get(), PyModule_GetDict(module)));
  }
  PyErr_Clear();
  return found;
}

bool is_here(const Versions& v) {
  static_assert(PY_MAJOR_VERSION == 3 && TORCH_VERSION_MAJOR == 2);
  if (v.of == Versions::Of::CudaBuild) return is_cuda_build();
  const int minor = v.of == Versions::Of::Python ? PY_MINOR_VERSION : TORCH_VERSION_MINOR;
  return v.first <= minor && minor <= v.last;
}

Object attributes_of(PyTypeObject* type) {
  const Object proxy = Object::take(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dict__"));
  Object dict = Object::take(PyDict_New());
  if (!proxy || !dict || PyDict_Update(dict.get(), proxy.get()) < 0) PyErr_Clear();
  return dict;
}

Object c_function_of(PyObject* attribute) {
  if (Py_TYPE(attribute) == &PyStaticMethod_Type) {
    Object f = attribute_of(attribute, "__func__");
    return f && PyCFunction_Check(f.get()) ? f : Object();
  }
  const bool known_kind = PyCFunction_Check(attribute) || is_method(attribute) ||
                          Py_TYPE(attribute) == &PyWrapperDescr_Type || Py_TYPE(attribute) == &PyGetSetDescr_Type ||
                          is_of(attribute, ClassSet::NumpyFunctions);
  return known_kind ? Object::share(attribute) : Object();
}

}  // namespace vesta::capture
