#include "capture/python/sources/read_source.h"

#include "capture/python/sources/cached_result.h"
#include "capture/python/sources/compute.h"
#include "capture/python/values/classes.h"
#include "capture/python/values/scalar.h"

namespace vesta::capture {

namespace {

// The getter of torch._C.TensorBase. An object of another class may have Python code there.
PyObject* gradient_of(PyObject* tensor, PyObject* type, int part) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(tensor)) != type) return nullptr;
  PyObject* const name = part == kHooks        ? "_backward_hooks"_name
                         : part == kHooksAfter ? "_post_accumulate_grad_hooks"_name
                                               : "grad"_name;
  PyObject* found = _PyType_Lookup(Py_TYPE(tensor), name);
  if (!found || Py_TYPE(found) != &PyGetSetDescr_Type) return nullptr;
  const PyGetSetDef* getter = reinterpret_cast<PyGetSetDescrObject*>(found)->d_getset;
  const Object x = Object::take(getter->get(tensor, getter->closure));
  if (!x) PyErr_Clear();
  return x.get();  // the tensor holds it
}

}  // namespace

Roots roots_of(Frame* f) { return {slots(f), function_of(f), globals_of(f), builtins_of(f)}; }

PyObject* read_source(const Source& s, const Roots& roots, PyObject* parent, PyObject* other, Object* computed) {
  if (s.parent >= 0 && !parent) return nullptr;
  switch (s.kind) {
    case SourceKind::Local: return roots.slots[s.index];
    case SourceKind::Function: return roots.function;
    case SourceKind::Globals: return roots.globals;
    case SourceKind::Builtins: return roots.builtins;
    case SourceKind::Constant: return s.key;
    case SourceKind::InstanceDict: return instance_dict(parent);
    case SourceKind::DictValue: {
      if (!PyDict_Check(parent)) return nullptr;
      PyObject* found = PyDict_GetItemWithError(parent, s.key);
      if (!found) PyErr_Clear();
      return found;
    }
    case SourceKind::DictKey: {
      if (!PyDict_Check(parent)) return nullptr;
      Py_ssize_t at = 0;
      PyObject* key = nullptr;
      for (int i = 0; i <= s.index; ++i)
        if (!PyDict_Next(parent, &at, &key, nullptr)) return nullptr;
      return key;
    }
    case SourceKind::SequenceItem:
      if (PyList_Check(parent)) return s.index < PyList_GET_SIZE(parent) ? PyList_GET_ITEM(parent, s.index) : nullptr;
      if (PyTuple_Check(parent))
        return s.index < PyTuple_GET_SIZE(parent) ? PyTuple_GET_ITEM(parent, s.index) : nullptr;
      return nullptr;
    case SourceKind::CellContents: return PyCell_Check(parent) ? PyCell_GET(parent) : nullptr;
    case SourceKind::ClosureCell: {
      if (!PyFunction_Check(parent)) return nullptr;
      PyObject* closure = PyFunction_GET_CLOSURE(parent);
      return closure && s.index < PyTuple_GET_SIZE(closure) ? PyTuple_GET_ITEM(closure, s.index) : nullptr;
    }
    case SourceKind::Defaults: return PyFunction_Check(parent) ? PyFunction_GET_DEFAULTS(parent) : nullptr;
    case SourceKind::KwDefaults: return PyFunction_Check(parent) ? PyFunction_GET_KW_DEFAULTS(parent) : nullptr;
    case SourceKind::Member: return member_at(parent, s.index);
    case SourceKind::MethodSelf: return PyMethod_Check(parent) ? PyMethod_GET_SELF(parent) : nullptr;
    case SourceKind::MethodFunction: return PyMethod_Check(parent) ? PyMethod_GET_FUNCTION(parent) : nullptr;
    case SourceKind::PartialFunction:
    case SourceKind::PartialArguments:
    case SourceKind::PartialKeywords: {
      // The layout of a partial is private. These members are plain C getters of objects that the partial owns.
      const char* name = s.kind == SourceKind::PartialFunction    ? "func"
                         : s.kind == SourceKind::PartialArguments ? "args"
                                                                  : "keywords";
      return attribute_of(parent, name).get();  // the parent holds it
    }
    case SourceKind::Gradient: return gradient_of(parent, s.key, s.index);
    case SourceKind::Referent: return PyWeakref_CheckRef(parent) ? PyWeakref_GetObject(parent) : nullptr;
    case SourceKind::Flag: {
      const Object x = Object::take(PyObject_CallNoArgs(parent));
      if (!x) PyErr_Clear();
      return x && PyBool_Check(x.get()) ? x.get() : nullptr;  // True and False live on
    }
    case SourceKind::ContextValue: {
      PyObject* x = nullptr;
      if (!PyContextVar_CheckExact(parent) || PyContextVar_Get(parent, nullptr, &x) < 0) PyErr_Clear();
      Py_XDECREF(x);  // owned by the context, or as the default by the variable
      return x;
    }
    case SourceKind::Cached: return cached_result(parent, s.key);
    case SourceKind::Computed: {
      if ((s.other >= 0 && !other) || !is_scalar(parent)) return nullptr;
      *computed = Object::take(compute(s.index, parent, other, s.key));
      if (!*computed) PyErr_Clear();
      return computed->get();
    }
  }
  return nullptr;
}

}  // namespace vesta::capture
