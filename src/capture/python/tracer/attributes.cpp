// Attributes: what is looked up on the class is a fact about the class; what is in the instance is a place.
#include <Python.h>

#include <structmember.h>

#include <cstring>
#include <string_view>

#include "capture/python/hook/hook.h"
#include "capture/python/tracer/module_items.h"
#include "capture/python/tracer/tracer.h"

namespace vesta::capture {
namespace {

bool named(PyObject* name, const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; }

bool is_method_of_c(PyObject* f) { return Py_TYPE(f) == &PyMethodDescr_Type || Py_TYPE(f) == &PyWrapperDescr_Type; }

// What a property calls ("fget", "fset", "fdel") if that is no Python function; nullptr: it is one, or there is none.
Object c_function_of(PyObject* property, const char* part) {
  if (!PyObject_TypeCheck(property, &PyProperty_Type)) return {};
  Object f = Object::take(PyObject_GetAttrString(property, part));
  if (!f) PyErr_Clear();
  return !f || f.get() == Py_None || PyFunction_Check(f.get()) ? Object() : f;
}

bool has_plain_getattr(PyTypeObject* type) { return type->tp_getattro == PyObject_GenericGetAttr; }

}  // namespace

// The source of an instance's __dict__, or -1 for a new instance.
int Tracer::dict_source(PyObject* owner) {
  const int source = sources.find(owner);
  if (source < 0) return -1;
  PyObject* dict = instance_dict(owner);
  if (!dict) return -1;
  const int s = sources.add(SourceKind::InstanceDict, source);
  sources.know(dict, s);
  return sources.find(dict);
}

PyObject* Tracer::bind(PyObject* attribute, PyObject* owner, PyTypeObject* type) {
  const descrgetfunc get = Py_TYPE(attribute)->tp_descr_get;
  if (!get) return track_constant(attribute);
  PyTypeObject* kind = Py_TYPE(attribute);
  if (std::string_view(kind->tp_name).ends_with("collections._tuplegetter")) {  // a field of a namedtuple
    const HookOff off;
    const Object parts = Object::take(PyObject_CallMethod(attribute, "__reduce__", nullptr));
    PyObject* arguments = parts && PyTuple_Check(parts.get()) ? PyTuple_GET_ITEM(parts.get(), 1) : nullptr;
    PyObject* index = arguments && PyTuple_Check(arguments) ? PyTuple_GET_ITEM(arguments, 0) : nullptr;
    const Py_ssize_t i = index && PyLong_Check(index) ? PyLong_AsSsize_t(index) : -1;
    const int source = sources.find(owner);
    if (source >= 0 && PyTuple_Check(owner) && i >= 0 && i < PyTuple_GET_SIZE(owner))
      return track(PyTuple_GET_ITEM(owner, i), sources.add(SourceKind::SequenceItem, source, static_cast<int>(i)));
  } else if (!PyFunction_Check(attribute) && !is_python_class(kind) && !is_known_class(kind) &&
             std::strcmp(kind->tp_name, "functools._lru_cache_wrapper") != 0 && !PyCFunction_Check(attribute)) {
    return graph_break(Break::DescriptorRead, kind->tp_name);
  }
  if (const Object getter = owner ? c_function_of(attribute, "fget") : Object()) {
    PyObject* args[] = {owner};
    return call(getter.get(), args, 1, nullptr);
  }
  if (sources.find(attribute) < 0 && (PyFunction_Check(attribute) || is_python_class(Py_TYPE(attribute))))
    Py_XDECREF(track_constant(attribute));
  return finish_call(get(attribute, owner, reinterpret_cast<PyObject*>(type)));
}

PyObject* Tracer::instance_attr(PyObject* owner, PyObject* name) {
  PyTypeObject* type = Py_TYPE(owner);
  guard_class(type, name);
  static PyObject* const hooks[] = {PyUnicode_InternFromString("__getattribute__"),
                                    PyUnicode_InternFromString("__getattr__")};
  for (PyObject* hook : hooks) guard_class(type, hook);
  if (named(name, "__dict__")) {
    PyObject* dict = instance_dict(owner);
    if (!dict) return PyObject_GenericGetAttr(owner, name);
    dict_source(owner);
    return Py_NewRef(dict);
  }
  if (named(name, "__class__") && !(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return PyObject_GenericGetAttr(owner, name);
  const Object attribute = Object::share(_PyType_Lookup(type, name));
  if (attribute) {
    PyTypeObject* kind = Py_TYPE(attribute.get());
    if (kind->tp_descr_get && kind->tp_descr_set) {
      if (kind == &PyMemberDescr_Type) {
        const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(attribute.get())->d_member;
        const int source = sources.find(owner);
        if (!operand(owner)) return nullptr;
        if (source >= 0 && (member->type == T_OBJECT_EX || member->type == T_OBJECT)) {
          const int offset = static_cast<int>(member->offset);
          PyObject* now = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(owner) + offset);
          const UndoLog::Entry* e = log.find(owner, offset);
          if (e && e->before.get() != now) return PyObject_GenericGetAttr(owner, name);
          const int place = sources.add(SourceKind::Member, source, offset, name);
          if (now) return track(now, place);
          guard(Check::Absent, place);
        }
        return PyObject_GenericGetAttr(owner, name);
      }
      if (kind == &PyGetSetDescr_Type && !is_known_class(type) && !is_python_class(type))
        return graph_break(Break::ComputedAttributeRead, type->tp_name);
      if (kind == &PyGetSetDescr_Type && !operand(owner)) return nullptr;
      PyObject* x = bind(attribute.get(), owner, type);
      if (x && PyCode_Check(owner)) {
        // Tuples of names: some versions make them anew at each read, in others the code keeps them.
        const Object again = Object::take(PyObject_GenericGetAttr(owner, name));
        if (again.get() == x) note_constant(sources.keep(x));
        PyErr_Clear();
      }
      return x;
    }
  }
  if (PyObject* dict = instance_dict(owner)) {
    bool found = false;
    PyObject* x = read_dict(dict, dict_source(owner), name, &found);
    if (found || PyErr_Occurred()) return x;
  }
  if (attribute) return bind(attribute.get(), owner, type);
  const Object hook = Object::share(_PyType_Lookup(type, hooks[1]));
  if (!hook) return finish_call(PyObject_GetAttr(owner, name));  // AttributeError
  if (is_getattr_of_modules(hook.get())) {
    bool found = false;
    PyObject* x = item_of_module(owner, name, hook.get(), &found);
    if (found || PyErr_Occurred()) return x;
  }
  if (!PyFunction_Check(hook.get()) && !is_method_of_c(hook.get()))
    return graph_break(Break::HookObject, "__getattr__");
  PyObject* args[] = {owner, name};
  return call(hook.get(), args, 2, nullptr);
}

PyObject* Tracer::module_attr(PyObject* owner, PyObject* name) {
  PyObject* dict = PyModule_GetDict(owner);
  int source = sources.find(dict);
  if (source < 0) {
    source = sources.add(SourceKind::Constant, -1, 0, dict);
    sources.know(dict, source);
  }
  if (named(name, "__dict__")) return Py_NewRef(dict);
  bool found = false;
  PyObject* x = read_dict(dict, source, name, &found);
  if (found || PyErr_Occurred()) return x;
  return finish_call(PyObject_GetAttr(owner, name));
}

void Tracer::know_class_dict(PyTypeObject* type) {
  lookups.push_back({type, nullptr, nullptr});  // all of it may be read, by C code as well
  const Object proxy = Object::take(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dict__"));
  const Object values = Object::take(proxy ? PyMapping_Values(proxy.get()) : nullptr);
  PyErr_Clear();
  for (Py_ssize_t i = 0; values && i < PyList_GET_SIZE(values.get()); ++i) {
    PyObject* x = PyList_GET_ITEM(values.get(), i);
    if (!is_scalar(x) && !is_tensor(x) && sources.find(x) < 0) Py_XDECREF(track_constant(x));
  }
}

PyObject* Tracer::class_attr(PyObject* owner, PyObject* name) {
  auto* type = reinterpret_cast<PyTypeObject*>(owner);
  guard_class(type, name);
  guard_class(Py_TYPE(owner), name);
  if (named(name, "__dict__") && looked_up_.emplace(type, type->tp_dict ? type->tp_dict : owner).second)
    know_class_dict(type);
  // A descriptor of the program's own gives what it holds, as the members of enumerations are given.
  for (PyTypeObject* t : {type, Py_TYPE(owner)})
    if (PyObject* d = _PyType_Lookup(t, name);
        d && Py_TYPE(d)->tp_descr_get && is_python_class(Py_TYPE(d)) && sources.find(d) < 0)
      Py_XDECREF(track_constant(d));
  // What binding gives else is new or a fact of the class.
  PyObject* x = finish_call(PyObject_GetAttr(owner, name));
  if (!x) return nullptr;
  // A class that gets another name has the same version.
  const std::pair<const char*, size_t> names[] = {{"__name__", offsetof(PyHeapTypeObject, ht_name)},
                                                  {"__qualname__", offsetof(PyHeapTypeObject, ht_qualname)}};
  for (const auto& [part, offset] : names)
    if (named(name, part) && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) &&
        x == *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(type) + offset))
      guard(Check::Equals,
            sources.add(SourceKind::Member, sources.add(SourceKind::Constant, -1, 0, owner), static_cast<int>(offset),
                        name),
            x);
  if (is_scalar(x) || is_tensor(x) || PyMethod_Check(x) || PyCFunction_Check(x)) {
    if (!is_tensor(x)) return x;
  }
  PyObject* plain = _PyType_Lookup(type, name);
  if (x == plain || PyFunction_Check(x) || PyType_Check(x)) {
    PyObject* known = sources.find(x) >= 0 && !is_tensor(x) ? Py_NewRef(x) : track_constant(x);
    Py_DECREF(x);
    return known;
  }
  return x;
}

bool Tracer::lift(PyObject* tensor) {
  if (is_traced(tensor) || sources.find(tensor) < 0) return true;
  if (lift_tensor(tensor)) return true;
  graph_break(trace_failure());
  return false;
}

void Tracer::guard_tensor_class(PyTypeObject* type) {
  if (!tensor_classes_.insert(type).second) return;
  static const std::vector<PyObject*> names = [] {
    std::vector<PyObject*> all;
    const auto add = [&](const std::string& name) {
      all.push_back(PyUnicode_InternFromString(("__" + name + "__").c_str()));
    };
    for (const char* name : {"torch_function",
                             "getattribute",
                             "getattr",
                             "call",
                             "lt",
                             "le",
                             "eq",
                             "ne",
                             "gt",
                             "ge",
                             "neg",
                             "pos",
                             "abs",
                             "invert",
                             "len",
                             "bool",
                             "getitem",
                             "setitem",
                             "delitem",
                             "contains",
                             "iter",
                             "next",
                             "index",
                             "int",
                             "float",
                             "complex",
                             "hash",
                             "format",
                             "round",
                             "divmod",
                             "enter",
                             "exit",
                             "class",
                             "rdivmod",
                             "reversed"})
      add(name);
    for (const char* name :
         {"add", "and", "floordiv", "lshift", "matmul", "mul", "mod", "or", "pow", "rshift", "sub", "truediv", "xor"})
      for (const char* side : {"", "r", "i"}) add(std::string(side) + name);
    return all;
  }();
  for (PyObject* name : names) guard_class(type, name);
}

PyObject* Tracer::tensor_attr(PyObject* owner, PyObject* name) {
  PyTypeObject* type = Py_TYPE(owner);
  guard_class(type, name);
  guard_tensor_class(type);
  static PyObject* const getattribute = PyUnicode_InternFromString("__getattribute__");
  if (!is_method_of_c(_PyType_Lookup(type, getattribute))) return finish_call(PyObject_GetAttr(owner, name));
  const Object attribute = Object::share(_PyType_Lookup(type, name));
  PyTypeObject* kind = attribute ? Py_TYPE(attribute.get()) : nullptr;
  if (attribute) {
    const Callable known = known_callable(attribute.get());
    if (known.effect == Effect::Refused)
      return graph_break(break_of(known), "Tensor." + std::string(PyUnicode_AsUTF8(name)), known.reason);
    if (sources.find(attribute.get()) < 0 && (PyFunction_Check(attribute.get()) || is_python_class(kind)))
      Py_XDECREF(track_constant(attribute.get()));
  }
  if (PyObject* real = real_of(owner)             ? real_of(owner)
                       : sources.find(owner) >= 0 ? owner
                                                  : nullptr;
      real && !(kind && kind->tp_descr_set)) {
    // Attributes that a program gave to a tensor are the real one's.
    const int source = sources.find(real);
    if (is_bare(real)) {
      guard(Check::Bare, source);
    } else if (PyObject* dict = instance_dict(real)) {
      const int s = sources.add(SourceKind::InstanceDict, source);
      sources.know(dict, s);
      bool found = false;
      PyObject* x = read_dict(dict, s, name, &found);
      if (found || PyErr_Occurred()) return x;
    }
  }
  if (kind && !kind->tp_descr_get) return track_constant(attribute.get());
  if (named(name, "__dict__")) return graph_break(Break::TensorDict);
  if (!lift(owner)) return nullptr;
  PyObject* real = real_of(owner) ? real_of(owner) : owner;
  const bool flag = named(name, "requires_grad"), history = named(name, "grad_fn") || named(name, "is_leaf");
  if ((flag || history) && !is_traced(real)) {
    if (const int source = sources.find(real); source >= 0) guard(Check::Tensor, source, nullptr, tensor_flags(real));
    // Outside of gradient mode a fake tensor requires none.
    if (flag && requires_grad(real)) Py_RETURN_TRUE;
  }
  if (flag && is_traced(real) && may_require_grad_unseen(real)) return graph_break(Break::ViewRequiresGrad);
  if (history && (is_traced(real) || requires_grad(real)))
    return graph_break(Break::TensorHistory, PyUnicode_AsUTF8(name));
  return finish_call(PyObject_GetAttr(owner, name));
}

PyObject* Tracer::super_attr(PyObject* owner, PyObject* name) {
  // Every class of the order after the given one is asked.
  const Object type = Object::take(PyObject_GetAttrString(owner, "__self_class__"));
  if (type && PyType_Check(type.get())) {
    PyObject* mro = reinterpret_cast<PyTypeObject*>(type.get())->tp_mro;
    for (Py_ssize_t i = 0; mro && i < PyTuple_GET_SIZE(mro); ++i)
      guard_class(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i)), name);
  }
  PyErr_Clear();
  return finish_call(PyObject_GetAttr(owner, name));
}

PyObject* Tracer::function_attr(PyObject* owner, PyObject* name) {
  const int source = sources.find(owner);
  if (source >= 0) {
    const std::pair<const char*, SourceKind> parts[] = {{"__defaults__", SourceKind::Defaults},
                                                        {"__kwdefaults__", SourceKind::KwDefaults}};
    for (const auto& [part, kind] : parts) {
      if (!named(name, part)) continue;
      PyObject* x = kind == SourceKind::Defaults ? PyFunction_GET_DEFAULTS(owner) : PyFunction_GET_KW_DEFAULTS(owner);
      if (x) return track(x, sources.add(kind, source));
      guard(Check::Absent, sources.add(kind, source));
      Py_RETURN_NONE;
    }
    if (named(name, "__closure__") || named(name, "__globals__") || named(name, "__annotations__")) {
      PyObject* x = PyObject_GetAttr(owner, name);
      if (!x || x == Py_None) return x;
      if (named(name, "__closure__")) return Py_DECREF(x), graph_break(Break::FunctionClosure);
      guard(Check::Is, source, owner);
      PyObject* known = track_constant(x);
      Py_DECREF(x);
      return known;
    }
  }
  return instance_attr(owner, name);
}

PyObject* Tracer::get_attr(PyObject* owner, PyObject* name) {
  if (aborted_) return nullptr;
  PyTypeObject* type = Py_TYPE(owner);
  if (is_tensor(owner)) return tensor_attr(owner, name);
  if (PyModule_CheckExact(owner)) return module_attr(owner, name);
  if (PyType_Check(owner)) return may_read_class(owner) ? class_attr(owner, name) : nullptr;
  if (PyFunction_Check(owner)) return function_attr(owner, name);
  if (type == &PySuper_Type) return super_attr(owner, name);
  if (is_symbolic_int(owner)) {
    const Object number = Object::take(plain(owner));
    return number ? finish_call(PyObject_GetAttr(number.get(), name)) : nullptr;
  }
  if (is_scalar(owner) || is_symbolic(owner) || is_symbolic_scalar(owner))
    return finish_call(PyObject_GetAttr(owner, name));
  if (has_plain_getattr(type)) return instance_attr(owner, name);
  if (is_python_class(type)) {
    // A class with __getattr__ looks as others do first; one with __getattribute__ is asked as it is.
    static PyObject* getattribute = PyUnicode_InternFromString("__getattribute__");
    PyObject* f = _PyType_Lookup(type, getattribute);
    guard_class(type, getattribute);
    if (f == _PyType_Lookup(&PyBaseObject_Type, getattribute)) return instance_attr(owner, name);
    return finish_call(PyObject_GetAttr(owner, name));
  }
  if (is_known_class(type)) return finish_call(PyObject_GetAttr(owner, name));
  return graph_break(Break::AttributeOfUnknownClass, type->tp_name);
}

int Tracer::instance_set_attr(PyObject* owner, PyObject* name, PyObject* value) {
  PyTypeObject* type = Py_TYPE(owner);
  guard_class(type, name);
  if (PyObject* attribute = _PyType_Lookup(type, name); attribute && Py_TYPE(attribute)->tp_descr_set) {
    if (Py_TYPE(attribute) == &PyMemberDescr_Type) {
      const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(attribute)->d_member;
      if (member->type != T_OBJECT_EX && member->type != T_OBJECT) return fail(Break::MemberSet);
      if (log.member(owner, static_cast<int>(member->offset)) < 0) return -1;
    } else if (Py_TYPE(attribute) == &PyGetSetDescr_Type && sources.find(owner) >= 0) {
      return fail(Break::ComputedAttributeSet, PyUnicode_AsUTF8(name), type->tp_name);
    } else if (c_function_of(attribute, value ? "fset" : "fdel")) {
      return fail(Break::AttributeSetByC, PyUnicode_AsUTF8(name));
    } else if (PyFunction_Check(attribute) == 0 && sources.find(attribute) < 0) {
      Py_XDECREF(track_constant(attribute));
    }
    return PyObject_GenericSetAttr(owner, name, value);
  }
  PyObject* dict = instance_dict(owner);
  if (dict) {
    dict_source(owner);
    if (!writes_key(dict, name, value == nullptr)) return -1;
  }
  return PyObject_GenericSetAttr(owner, name, value);
}

int Tracer::set_attr(PyObject* owner, PyObject* name, PyObject* value) {
  if (aborted_) return -1;
  PyTypeObject* type = Py_TYPE(owner);
  if (is_tensor(owner)) {
    // One that the trace made, of a subclass, is rebuilt with what it holds; what a fake tensor holds is lost.
    const bool is_new = is_traced(owner) && !is_base_tensor(owner) && sources.find(owner) < 0 && !real_of(owner);
    if (!is_new || type->tp_setattro != PyBaseObject_Type.tp_setattro || _PyType_Lookup(type, name))
      return fail(Break::TensorAttributeSet);
    guard_class(type, name);
    return finish_status(PyObject_GenericSetAttr(owner, name, value));
  }
  if (PyType_Check(owner)) return fail(Break::ClassAttributeSet);
  if (PyModule_CheckExact(owner)) {
    PyObject* dict = PyModule_GetDict(owner);
    if (sources.find(dict) < 0) sources.know(dict, sources.add(SourceKind::Constant, -1, 0, dict));
    if (!writes_key(dict, name, value == nullptr)) return -1;
    return PyObject_SetAttr(owner, name, value);
  }
  if (PyFunction_Check(owner)) {
    if (sources.find(owner) >= 0) return fail(Break::FunctionAttributeSet);
    return PyObject_SetAttr(owner, name, value);
  }
  if (type->tp_setattro == PyObject_GenericSetAttr) {
    if (!is_python_class(type) && !is_known_class(type)) return fail(Break::UnknownAttributeSet, type->tp_name);
    return instance_set_attr(owner, name, value);
  }
  if (!is_python_class(type)) return fail(Break::UnknownAttributeSet, type->tp_name);
  // The class's own __setattr__, or one it inherits.
  static PyObject* const setattr = PyUnicode_InternFromString("__setattr__");
  static PyObject* const delattr = PyUnicode_InternFromString("__delattr__");
  PyObject* const hook = value ? setattr : delattr;
  guard_class(type, hook);
  if (PyObject* f = _PyType_Lookup(type, hook); f && !PyFunction_Check(f)) {
    const Object held = Object::share(f);
    PyObject* args[] = {owner, name, value};
    const Object done =
        Object::take(is_method_of_c(f) ? call(f, args, value ? 3 : 2, nullptr)
                                       : graph_break(Break::HookObject, value ? "__setattr__" : "__delattr__"));
    return done ? 0 : -1;
  }
  const int status = PyObject_SetAttr(owner, name, value);
  if (status < 0 || aborted_) return finish_call(nullptr) ? 0 : -1;
  return status;
}

PyObject* Tracer::lookup_special(PyObject* obj, PyObject* name) {
  if (aborted_ || !operand(obj)) return nullptr;
  guard_class(Py_TYPE(obj), name);
  PyObject* x = Operations::lookup_special(obj, name);
  return x ? finish_call(x) : nullptr;
}

Object Tracer::absolute_name(Frame* f, PyObject* name, long up) {
  static PyObject* const key = PyUnicode_InternFromString("__package__");
  PyObject* globals = globals_of(f);
  PyObject* package = PyDict_GetItemWithError(globals, key);
  PyErr_Clear();
  if (!package || !PyUnicode_CheckExact(package)) return {};
  guard(Check::Equals, sources.add(SourceKind::DictValue, namespace_source(f, globals), 0, key), package);
  const char* text = PyUnicode_AsUTF8(package);
  const char* more = PyUnicode_AsUTF8(name);
  if (!text || !more) return PyErr_Clear(), Object();
  std::string out = text;
  for (long i = 1; i < up; ++i) {
    const size_t dot = out.rfind('.');
    if (dot == std::string::npos) return {};
    out.resize(dot);
  }
  if (*more) out += std::string(out.empty() ? "" : ".") + more;
  return out.empty() || *text == 0 ? Object() : Object::take(PyUnicode_InternFromString(out.c_str()));
}

PyObject* Tracer::import_name(Frame* f, PyObject* name, PyObject* fromlist, PyObject* level) {
  // An import of what is imported is a read of sys.modules; a relative name is of the frame's package.
  PyObject* modules = PyImport_GetModuleDict();
  const long up = PyLong_Check(level) ? PyLong_AsLong(level) : 0;
  const Object absolute = up > 0 ? absolute_name(f, name, up) : Object::share(name);
  name = absolute.get();
  PyObject* module = name ? PyDict_GetItemWithError(modules, name) : nullptr;
  if (!module || !PyModule_Check(module)) {
    PyErr_Clear();
    return graph_break(Break::ModuleImported);
  }
  if (sources.find(modules) < 0) sources.know(modules, sources.add(SourceKind::Constant, -1, 0, modules));
  guard(Check::Is, sources.add(SourceKind::DictValue, sources.find(modules), 0, name), module);
  if (up == 0 && (fromlist == Py_None || (PyTuple_Check(fromlist) && PyTuple_GET_SIZE(fromlist) == 0))) {
    const char* text = PyUnicode_AsUTF8(name);
    const char* dot = text ? std::strchr(text, '.') : nullptr;
    if (dot) {
      const Object top = Object::take(PyUnicode_FromStringAndSize(text, dot - text));
      module = PyDict_GetItemWithError(modules, top.get());
      if (!module) return graph_break(Break::ModuleImported);
    }
  }
  // `from package import module` imports what is not there yet.
  for (Py_ssize_t i = 0; PyTuple_Check(fromlist) && i < PyTuple_GET_SIZE(fromlist); ++i) {
    PyObject* wanted = PyTuple_GET_ITEM(fromlist, i);
    if (PyUnicode_CompareWithASCIIString(wanted, "*") == 0) continue;
    if (!PyDict_GetItemWithError(PyModule_GetDict(module), wanted)) {
      PyErr_Clear();
      return graph_break(Break::NameImported);
    }
  }
  return track_constant(module);
}

PyObject* Tracer::import_from(PyObject* module, PyObject* name) {
  PyObject* x = get_attr(module, name);
  if (x || aborted_ || !PyErr_ExceptionMatches(PyExc_AttributeError)) return x;
  PyErr_Clear();
  return finish_call(Operations::import_from(module, name));
}

}  // namespace vesta::capture
