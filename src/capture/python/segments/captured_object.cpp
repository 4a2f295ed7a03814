#include "capture/python/segments/captured_object.h"

#include <Python.h>

#include <structmember.h>

#include "capture/python/frame/exclusive.h"
#include "capture/python/segments/captured.h"
#include "capture/python/segments/stance.h"

namespace vesta::capture {
namespace {

struct CapturedObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* weakrefs;
  Captured* captured;
};

Captured& of(PyObject* x) { return *reinterpret_cast<CapturedObject*>(x)->captured; }

PyObject* call(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  Captured& c = of(self);
  const Object held = Object::share(self);
  const Object wrapped = Object::share(c.wrapped());
  if (tracing()) return PyObject_Vectorcall(wrapped.get(), args, flags, names);
  ++c.calls;
  if (const Stance s = stance(); s == Stance::ForceEager || (s == Stance::EagerFirst && c.calls == 1)) {
    c.fall_back("torch.compiler.set_stance asks for it");
    return PyObject_Vectorcall(wrapped.get(), args, flags, names);
  }
  const size_t count = PyVectorcall_NARGS(flags);
  if (c.aside.wants(args, count, names)) {
    ++c.aside.calls;
    if (c.aside.fallback) ++*c.aside.fallback;
    return PyObject_Vectorcall(wrapped.get(), args, flags, names);
  }
  Gain gain;
  PyObject* result = nullptr;
  {
    const Arrival arrival(c, nullptr, &gain);
    result = PyObject_Vectorcall(wrapped.get(), args, flags, names);
  }
  if (result)
    c.aside.learn(gain, args, count, names);
  else
    c.aside.forget();
  return result;
}

PyObject* get_wrapped(PyObject* self, void*) { return Py_NewRef(of(self).wrapped()); }

PyObject* reset(PyObject* self, PyObject*) {
  of(self).reset();
  Py_RETURN_NONE;
}

void dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  auto* o = reinterpret_cast<CapturedObject*>(self);
  if (o->weakrefs) PyObject_ClearWeakRefs(self);
  delete std::exchange(o->captured, nullptr);
  Py_TYPE(self)->tp_free(self);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  auto* o = reinterpret_cast<CapturedObject*>(self);
  return o->captured ? o->captured->traverse(visit, arg) : 0;
}

int clear(PyObject* self) {
  if (auto* o = reinterpret_cast<CapturedObject*>(self); o->captured) o->captured->clear();
  return 0;
}

PyMethodDef methods[] = {{"reset", reset, METH_NOARGS, "Forgets every compiled variant."},
                         {nullptr, nullptr, 0, nullptr}};
PyGetSetDef getters[] = {{"wrapped", get_wrapped, nullptr, "The callable as it is without Vesta.", nullptr},
                         {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

int add_captured_object(PyObject* module) {
  type.tp_name = "vesta._C.CapturedFunction";
  type.tp_basicsize = sizeof(CapturedObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC;
  type.tp_doc = "A Python callable that Vesta captures and compiles as it is called.";
  type.tp_vectorcall_offset = offsetof(CapturedObject, vectorcall);
  type.tp_weaklistoffset = offsetof(CapturedObject, weakrefs);
  type.tp_call = PyVectorcall_Call;
  type.tp_dealloc = dealloc;
  type.tp_traverse = traverse;
  type.tp_clear = clear;
  type.tp_methods = methods;
  type.tp_getset = getters;
  if (PyType_Ready(&type) < 0) return -1;
  install_exclusive();
  return PyModule_AddObjectRef(module, "CapturedFunction", reinterpret_cast<PyObject*>(&type));
}

PyObject* make_captured(PyObject* wrapped, Options options, std::string name, bool fullgraph) {
  if (!load_callables()) return nullptr;
  auto* o = PyObject_GC_New(CapturedObject, &type);
  if (!o) return nullptr;
  o->vectorcall = call;
  o->weakrefs = nullptr;
  o->captured = new Captured(Object::share(wrapped), std::move(options), std::move(name), fullgraph);
  PyObject_GC_Track(reinterpret_cast<PyObject*>(o));
  return reinterpret_cast<PyObject*>(o);
}

bool is_captured(PyObject* x) { return Py_TYPE(x) == &type; }

CaptureReport report_of(PyObject* x) { return of(x).report(); }

PyObject* wrapped_by_capture(PyObject* x) {
  if (is_captured(x)) return of(x).wrapped();
  // An object whose class holds one in the slot `__call__`.
  static PyObject* name = PyUnicode_InternFromString("__call__");
  PyObject* member = is_python_class(Py_TYPE(x)) ? _PyType_Lookup(Py_TYPE(x), name) : nullptr;
  if (!member || Py_TYPE(member) != &PyMemberDescr_Type) return nullptr;
  const PyMemberDef* def = reinterpret_cast<PyMemberDescrObject*>(member)->d_member;
  if (def->type != T_OBJECT_EX) return nullptr;
  PyObject* held = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(x) + def->offset);
  return held && is_captured(held) ? of(held).wrapped() : nullptr;
}

}  // namespace vesta::capture
