#include "capture/python/epilogue/builder.h"

#include <Python.h>

#include <structmember.h>

#include <algorithm>
#include <cstring>

#include "capture/python/epilogue/quiet.h"
#include "capture/python/functions/functions.h"
#include "capture/python/functions/hashed_keys.h"
#include "capture/python/functions/python_classes.h"
#include "capture/python/guards/guard.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/symbolic_scalar.h"

namespace vesta::capture {
namespace {

constexpr int kMostDepth = 200;
constexpr Py_ssize_t kMostItems = 1 << 16;

// dict's method that makes what an iterator of the class goes through; nullptr for other classes.
const char* method_of_iterator(PyTypeObject* type) {
  return type == &PyDictIterKey_Type     ? "keys"
         : type == &PyDictIterValue_Type ? "values"
         : type == &PyDictIterItem_Type  ? "items"
                                         : nullptr;
}

// Whether an iterator of a dict that promises no item has seen all of them, and the dict has not changed its size.
bool at_its_end(PyObject* iterator) {
  static PyObject* const reduce = PyUnicode_InternFromString("__reduce__");
  const Object r = call_quietly(iterator, reduce);  // raises if the size has changed
  if (!r) PyErr_Clear();
  return bool(r);
}

}  // namespace

int EpilogueBuilder::add(Reconstruction r) {
  epilogue.reconstructions.push_back(std::move(r));
  return static_cast<int>(epilogue.reconstructions.size()) - 1;
}

int EpilogueBuilder::constant(PyObject* x) { return add({Make::Constant, 0, keep(x), {}}); }

int EpilogueBuilder::source(int id) {
  if (trace_.sources[id].kind == SourceKind::Constant) return constant(trace_.sources[id].key);
  epilogue.needed.push_back(id);
  return add({Make::Source, static_cast<int>(epilogue.needed.size()) - 1, nullptr, {}});
}

int EpilogueBuilder::fail(PyObject* x, Break why, std::string_view what) {
  if (!blocked) {
    blocked = x;
    reason = reason_for(why, what);
  }
  return -1;
}

int EpilogueBuilder::container(PyObject* x) {
  // The reconstruction has its number before its parts: a list may contain itself.
  const Make make = PyList_Check(x)    ? Make::List
                    : PyTuple_Check(x) ? Make::Tuple
                    : PySet_Check(x)   ? Make::Set
                                       : Make::FrozenSet;
  const int id = add({make, 0, nullptr, {}});
  known_.try_emplace(x, id);  // an instance whose payload this is has its own
  const Object items = Object::take(items_of(x));
  if (!items) return PyErr_Clear(), fail(x, Break::ItemsNotRead);
  const Py_ssize_t n = PyTuple_GET_SIZE(items.get());
  if (n > kMostItems) return fail(x, Break::ManyItemsAtExit);
  std::vector<int> parts;
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (PyAnySet_Check(x) && is_hashed_by_program(PyTuple_GET_ITEM(items.get(), i)))
      return fail(x, Break::KeysWithHashAtExit);
    const int part = value(PyTuple_GET_ITEM(items.get(), i));
    if (part < 0) return -1;
    parts.push_back(part);
  }
  epilogue.reconstructions[static_cast<size_t>(id)].parts = std::move(parts);
  return id;
}

int EpilogueBuilder::dict(PyObject* x, Make make) {
  const int id = add({make, 0, nullptr, {}});
  known_.try_emplace(x, id);
  const Object keys = Object::take(keys_of(x));
  if (!keys) return PyErr_Clear(), fail(x, Break::ItemsNotRead);
  std::vector<int> parts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys.get()); ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys.get(), i);
    if (is_hashed_by_program(key)) return fail(x, Break::KeysWithHashAtExit);
    PyObject* item = PyDict_GetItemWithError(x, key);
    if (!item) return PyErr_Clear(), fail(x, Break::ItemsNotRead);
    const int k = value(key), v = k < 0 ? -1 : value(item);
    if (v < 0) return -1;
    parts.push_back(k);
    parts.push_back(v);
  }
  epilogue.reconstructions[static_cast<size_t>(id)].parts = std::move(parts);
  return id;
}

int EpilogueBuilder::instance(PyObject* x) {
  PyTypeObject* type = Py_TYPE(x);
  PyTypeObject* base = c_base(type);
  if (base != &PyBaseObject_Type && base != &PyDict_Type && base != &PyODict_Type && base != &PyList_Type &&
      base != &PyTuple_Type && base != &PySet_Type && base != &PyFrozenSet_Type && base != &PyLong_Type &&
      base != &PyFloat_Type && base != &PyUnicode_Type)
    return fail(x, Break::NotRebuilt, type->tp_name);
  const int id = add({Make::Instance, 0, keep(reinterpret_cast<PyObject*>(type)), {}});
  known_[x] = id;
  Reconstruction r = epilogue.reconstructions[static_cast<size_t>(id)];
  int payload = -1;
  if (base == &PyBaseObject_Type) {
    payload = add({Make::Null, 0, nullptr, {}});
  } else if (base == &PyDict_Type || base == &PyODict_Type) {
    payload = dict(x, Make::Dict);
  } else if (base == &PyLong_Type || base == &PyFloat_Type || base == &PyUnicode_Type) {
    const Object plain = Object::take(base == &PyLong_Type    ? PyNumber_Long(x)
                                      : base == &PyFloat_Type ? PyFloat_FromDouble(PyFloat_AS_DOUBLE(x))
                                                              : PyUnicode_FromObject(x));
    if (!plain) return PyErr_Clear(), fail(x, Break::ValueNotRead, "a number");
    payload = constant(plain.get());
  } else {
    payload = container(x);
  }
  if (payload < 0) return -1;
  r.parts.push_back(payload);
  if (PyObject* attributes = instance_dict(x)) {
    PyObject *key = nullptr, *item = nullptr;
    Py_ssize_t at = 0;
    std::vector<std::pair<PyObject*, PyObject*>> items;
    while (PyDict_Next(attributes, &at, &key, &item)) items.emplace_back(key, item);
    for (const auto& [k, v] : items) {
      const int a = value(k), b = a < 0 ? -1 : value(v);
      if (b < 0) return -1;
      r.parts.push_back(a);
      r.parts.push_back(b);
      ++r.index;
    }
  }
  for (PyTypeObject* t = type; t && is_python_class(t); t = t->tp_base) {
    const Object members = Object::take(PyDict_Values(t->tp_dict));
    for (Py_ssize_t i = 0; members && i < PyList_GET_SIZE(members.get()); ++i) {
      PyObject* m = PyList_GET_ITEM(members.get(), i);
      if (Py_TYPE(m) != &PyMemberDescr_Type) continue;
      const PyMemberDef* def = reinterpret_cast<PyMemberDescrObject*>(m)->d_member;
      if (def->type != T_OBJECT_EX) continue;
      const int v = value(*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(x) + def->offset));
      if (v < 0) return -1;
      r.parts.push_back(static_cast<int>(def->offset));
      r.parts.push_back(v);
    }
  }
  epilogue.reconstructions[static_cast<size_t>(id)] = std::move(r);
  return id;
}

int EpilogueBuilder::function(PyObject* x) {
  auto* f = reinterpret_cast<PyFunctionObject*>(x);
  const int id = add({Make::Function, 0, keep(f->func_code), {}});
  known_[x] = id;
  std::vector<int> parts;
  const Object annotations = Object::take(PyObject_GetAttrString(x, "__annotations__"));
  if (!annotations) PyErr_Clear();
#if PY_VERSION_HEX >= 0x030c0000
  PyObject* type_params = f->func_typeparams;
#else
  PyObject* type_params = nullptr;
#endif
  for (PyObject* part : {f->func_globals, f->func_qualname, f->func_defaults, f->func_kwdefaults, f->func_closure,
                         f->func_dict, annotations.get(), type_params, f->func_name, f->func_doc, f->func_module}) {
    // The globals of a function made here are those of a frame.
    const int p = part == f->func_globals ? constant(part) : value(part);
    if (p < 0) return -1;
    parts.push_back(p);
  }
  epilogue.reconstructions[static_cast<size_t>(id)].parts = std::move(parts);
  return id;
}

namespace {
// How many fields a class of PyStructSequence_NewType has, the hidden ones too; 0: it is another class.
Py_ssize_t fields_of_struct_sequence(PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("n_fields");
  if (type->tp_base != &PyTuple_Type || is_python_class(type)) return 0;
  PyObject* fields = _PyType_Lookup(type, name);
  return fields && PyLong_CheckExact(fields) ? PyLong_AsSsize_t(fields) : 0;
}
}  // namespace

int EpilogueBuilder::struct_sequence(PyObject* x, Py_ssize_t fields) {
  Reconstruction r{Make::StructSequence, 0, keep(reinterpret_cast<PyObject*>(Py_TYPE(x))), {}};
  for (Py_ssize_t i = 0; i < fields; ++i) {
    const int field = value(PyStructSequence_GetItem(x, i));
    if (field < 0) return -1;
    r.parts.push_back(field);
  }
  return known_[x] = add(std::move(r));
}

int EpilogueBuilder::reduced(PyObject* x) {
  static PyObject* const reduce = PyUnicode_InternFromString("__reduce__");
  // object's own says how to make a plain object or an instance of a class statement, and nothing of what C holds.
  const bool reducible = Py_TYPE(x) == &PyBaseObject_Type ||
                         _PyType_Lookup(Py_TYPE(x), reduce) != _PyType_Lookup(&PyBaseObject_Type, reduce);
  const Object r = reducible ? call_quietly(x, reduce) : Object();
  if (!r || !PyTuple_Check(r.get()) || PyTuple_GET_SIZE(r.get()) < 2) {
    PyErr_Clear();
    return fail(x, Break::NotRebuilt, Py_TYPE(x)->tp_name);
  }
  alive.push_back(r);  // the epilogue would keep what it holds
  std::vector<int> parts;
  for (Py_ssize_t i = 0; i < std::min<Py_ssize_t>(PyTuple_GET_SIZE(r.get()), 5); ++i) {
    PyObject* part = PyTuple_GET_ITEM(r.get(), i);
    Object items;
    if (i >= 3 && part != Py_None) {  // iterators of what to append, and of keys and values
      items = Object::take(PySequence_List(part));
      if (!items) return PyErr_Clear(), fail(x, Break::ItemsNotRead);
      alive.push_back(items);
      part = items.get();
    }
    const int p = value(i >= 2 && part == Py_None ? nullptr : part);
    if (p < 0) return -1;
    parts.push_back(p);
  }
  return known_[x] = add({Make::CallState, 0, nullptr, std::move(parts)});
}

int EpilogueBuilder::dict_iterator(PyObject* x, const char* method) {
  PyObject* dict = nullptr;
  Py_TYPE(x)->tp_traverse(
      x,
      [](PyObject* held, void* out) {
        if (PyDict_Check(held)) *static_cast<PyObject**>(out) = held;
        return 0;
      },
      static_cast<void*>(&dict));
  const Py_ssize_t left = dict ? PyObject_LengthHint(x, 0) : 0;
  if (left <= 0 && dict && !at_its_end(x)) dict = nullptr;
  const Py_ssize_t steps = dict ? PyDict_GET_SIZE(dict) - left : 0;
  Py_ssize_t end = 0;
  while (dict && PyDict_Next(dict, &end, nullptr, nullptr)) {
    // A key that was taken out would be a step.
    if (end > PyDict_GET_SIZE(dict)) dict = nullptr;
  }
  if (!dict || left < 0 || PyODict_Check(dict)) return PyErr_Clear(), fail(x, Break::NotRebuilt, Py_TYPE(x)->tp_name);
  const int part = value(dict);
  if (part < 0) return -1;
  const Object name = Object::take(PyUnicode_InternFromString(method));
  return known_[x] = add({Make::DictIterator, static_cast<int>(steps), keep(name.get()), {part}});
}

int EpilogueBuilder::bound(PyObject* x, PyObject* self) {
  // Not what the object has under the name: super() may have found another one.
  const Object name = Object::take(PyObject_GetAttrString(x, "__name__"));
  PyObject* mro = Py_TYPE(self)->tp_mro;
  for (Py_ssize_t i = 0; name && mro && i < PyTuple_GET_SIZE(mro); ++i) {
    PyObject* descriptor = _PyType_Lookup(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i)), name.get());
    if (!descriptor) continue;
    if (Py_TYPE(descriptor) != &PyMethodDescr_Type && Py_TYPE(descriptor) != &PyWrapperDescr_Type) continue;
    const Object get = Object::take(PyObject_GetAttrString(descriptor, "__get__"));
    const Object again = Object::take(get ? PyObject_CallOneArg(get.get(), self) : nullptr);
    if (!again || Py_TYPE(again.get()) != Py_TYPE(x) || PyObject_RichCompareBool(again.get(), x, Py_EQ) != 1) continue;
    const int owner = value(self);
    return owner < 0 ? -1 : known_[x] = add({Make::Call, 0, nullptr, {constant(get.get()), owner}});
  }
  PyErr_Clear();
  return fail(x, Break::NotRebuilt, Py_TYPE(x)->tp_name);
}

int EpilogueBuilder::subclass(PyObject* x, int tensor) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(x));
  if (trace_.made.contains(type)) return fail(x, Break::NewTypeNotRebuilt, "a tensor");
  PyObject* dict = instance_dict(x);
  const int attributes = dict ? value(dict) : add({Make::Null, 0, nullptr, {}});
  return attributes < 0 ? -1 : add({Make::Subclass, 0, nullptr, {tensor, constant(type), attributes}});
}

int EpilogueBuilder::value(PyObject* x) {
  if (!x) return add({Make::Null, 0, nullptr, {}});
  if (closed_.contains(x)) return fail(x, Break::SelfReferenceNotRebuilt);
  if (const auto it = known_.find(x); it != known_.end()) return it->second;
  // Of the others an empty one is made first.
  PyTypeObject* base = c_base(Py_TYPE(x));
  const bool closed = base != &PyBaseObject_Type && base != &PyList_Type && base != &PyDict_Type &&
                      base != &PyODict_Type && base != &PyCell_Type && base != &PyFunction_Type;
  if (closed) closed_.insert(x);
  const int id = described(x);
  if (closed) closed_.erase(x);
  return id;
}

int EpilogueBuilder::described(PyObject* x) {
  if (is_scalar(x) || trace_.functions.is_constant(x)) return known_[x] = constant(x);
  if (PyObject* real = trace_.tensors.real_of(x)) return known_[x] = source(trace_.sources.find(real));
  if (const int s = trace_.sources.find(x); s >= 0) return known_[x] = source(s);
  if (const int s = is_symbolic_scalar(x) ? scalar_source(x) : trace_.numbers.symbol_source(x); s >= 0)
    return known_[x] = source(s);
  if (is_traced(x) || is_symbolic_int(x)) {
    outputs.push_back(x);
    alive.push_back(Object::share(x));
    const int output = add({Make::Output, static_cast<int>(outputs.size()) - 1, nullptr, {}});
    return known_[x] = is_tensor(x) && !is_base_tensor(x) ? subclass(x, output) : output;
  }
  if (is_symbolic_bool(x)) {
    const int truth = PyObject_IsTrue(x);
    if (truth < 0) return PyErr_Clear(), fail(x, Break::ValueNotRead, "a symbolic condition");
    return known_[x] = constant(truth ? Py_True : Py_False);
  }
  if (is_tensor(x)) return fail(x, Break::UnknownTensor);
  if (is_symbolic(x)) return fail(x, Break::SymbolicFloat);
  if (++depth_ > kMostDepth) return --depth_, fail(x, Break::NestingTooDeep);
  struct Leave {
    int& depth;
    ~Leave() { --depth; }
  } leave{depth_};
  PyTypeObject* type = Py_TYPE(x);
  if (PyType_Check(x)) {
    if (trace_.made.contains(x)) return fail(x, Break::NewClassUsed);
    return known_[x] = constant(x);
  }
  if (PyModule_Check(x) && !is_imported(x)) return fail(x, Break::ModuleNotInTable);
  if (PyModule_Check(x) || PyCode_Check(x) || PyRange_Check(x) || type == &PyMethodDescr_Type)
    return known_[x] = constant(x);
  if (PyList_CheckExact(x) || PyTuple_CheckExact(x) || PySet_CheckExact(x) || PyFrozenSet_CheckExact(x))
    return container(x);
  if (PyDict_CheckExact(x)) return dict(x, Make::Dict);
  if (PyODict_CheckExact(x)) {
    PyObject* attributes = instance_dict(x);
    return attributes && PyDict_GET_SIZE(attributes) > 0 ? instance(x) : dict(x, Make::OrderedDict);
  }
  if (PySlice_Check(x)) {
    auto* s = reinterpret_cast<PySliceObject*>(x);
    std::vector<int> parts;
    for (PyObject* part : {s->start, s->stop, s->step}) {
      const int p = value(part);
      if (p < 0) return -1;
      parts.push_back(p);
    }
    return known_[x] = add({Make::Slice, 0, nullptr, std::move(parts)});
  }
  if (PyCell_Check(x)) {
    const int id = add({Make::Cell, 0, nullptr, {}});
    known_[x] = id;
    const int contents = value(PyCell_GET(x));
    if (contents < 0) return -1;
    epilogue.reconstructions[static_cast<size_t>(id)].parts = {contents};
    return id;
  }
  if (PyMethod_Check(x)) {
    const int f = value(PyMethod_GET_FUNCTION(x)), self = f < 0 ? -1 : value(PyMethod_GET_SELF(x));
    if (self < 0) return -1;
    return known_[x] = add({Make::Method, 0, nullptr, {f, self}});
  }
  if (PyFunction_Check(x)) return trace_.made.contains(x) ? function(x) : (known_[x] = constant(x));
  if (PyCFunction_Check(x)) {
    PyObject* self = reinterpret_cast<PyCFunctionObject*>(x)->m_self;
    if (!self || PyModule_Check(self) || PyType_Check(self)) return known_[x] = constant(x);
    return bound(x, self);
  }
  if (is_method_wrapper(x)) {
    const Object self = Object::take(PyObject_GetAttrString(x, "__self__"));
    if (!self) return PyErr_Clear(), fail(x, Break::NotRebuilt, Py_TYPE(x)->tp_name);
    return bound(x, self.get());
  }
  if (type == &PySuper_Type) {
    const Object cls = Object::take(PyObject_GetAttrString(x, "__thisclass__"));
    const Object self = Object::take(PyObject_GetAttrString(x, "__self__"));
    if (!cls || !self) return PyErr_Clear(), fail(x, Break::NotRebuilt, Py_TYPE(x)->tp_name);
    const int a = value(cls.get()), b = a < 0 ? -1 : value(self.get());
    if (b < 0) return -1;
    return known_[x] = add({Make::Call, 0, nullptr, {constant(reinterpret_cast<PyObject*>(type)), a, b}});
  }
  if (PyGen_CheckExact(x) || PyCoro_CheckExact(x) || PyAsyncGen_CheckExact(x))
    return fail(x, Break::NotRebuilt, Py_TYPE(x)->tp_name);
  if (PyExceptionInstance_Check(x)) return fail(x, Break::NotRebuilt, Py_TYPE(x)->tp_name);
  const std::string_view name = type->tp_name;
  if (name == "torch.device" || name == "torch.dtype" || name == "torch.layout" || name == "torch.memory_format")
    return known_[x] = constant(x);
  if (is_numpy_scalar(x)) return known_[x] = constant(x);
  if (name == "dict_keys" || name == "dict_values" || name == "dict_items") {
    // Views of a dict, by the view's method of making itself.
    const Object list = Object::take(PyObject_GetAttrString(x, "mapping"));
    return fail(x, Break::NotRebuilt, Py_TYPE(x)->tp_name);
  }
  if (name == "torch.Size") {
    const Object items = Object::take(PyTuple_New(PyTuple_GET_SIZE(x)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(x); ++i)
      PyTuple_SET_ITEM(items.get(), i, Py_NewRef(PyTuple_GET_ITEM(x, i)));
    alive.push_back(items);
    const int tuple = value(items.get());
    if (tuple < 0) return -1;
    return known_[x] = add({Make::Call, 0, nullptr, {constant(reinterpret_cast<PyObject*>(type)), tuple}});
  }
  if (is_python_class(type)) return instance(x);
  if (const char* method = method_of_iterator(type)) return dict_iterator(x, method);
  // The containers of these are to be as they were, which what they reduce to does not ask.
  if (name == "set_iterator" || name == "odict_iterator" || name.starts_with("dict_reverse") ||
      name.starts_with("_collections._deque"))
    return fail(x, Break::NotRebuilt, type->tp_name);
  if (const Py_ssize_t fields = fields_of_struct_sequence(type); fields > 0) return struct_sequence(x, fields);
  if (is_known_class(type)) return reduced(x);
  return fail(x, Break::NotRebuilt, type->tp_name);
}

bool EpilogueBuilder::dict_effect(int target, const UndoLog::Entry& entry) {
  PyObject *before = entry.before.get(), *now = entry.target.get();
  const int owner = trace_.sources.find(now);
  if (has_keys_of_program(now)) return fail(now, Break::KeysWithHashAtExit) >= 0;
  const Object was = Object::take(keys_of(before)), is = Object::take(keys_of(now));
  if (!was || !is) return PyErr_Clear(), fail(now, Break::ItemsNotRead) >= 0;
  const Py_ssize_t n = PyTuple_GET_SIZE(is.get());
  // The order is kept if the keys that stayed come first, as they were.
  bool anew = false;
  Py_ssize_t i = 0;
  std::vector<PyObject*> gone;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(was.get()); ++k) {
    PyObject* key = PyTuple_GET_ITEM(was.get(), k);
    if (!PyDict_GetItemWithError(now, key)) {
      gone.push_back(key);
    } else if (i < n && PyTuple_GET_ITEM(is.get(), i) == key) {
      ++i;
    } else {
      anew = true;
    }
  }
  PyErr_Clear();
  if (anew && !trace_.containers.track_contents(now, 1)) return fail(now, Break::ItemsNotRead) >= 0;
  SideEffect e{Write::DictAssign, target};
  for (Py_ssize_t k = 0; k < n; ++k) {
    PyObject* key = PyTuple_GET_ITEM(is.get(), k);
    PyObject* item = PyDict_GetItemWithError(now, key);
    PyObject* old = PyDict_GetItemWithError(before, key);
    if (!anew && old == item && !entry.wrote(key)) continue;
    const int a = value(key), b = a < 0 ? -1 : value(item);
    if (b < 0) return false;
    if (anew) {
      e.parts.push_back(a);
      e.parts.push_back(b);
    } else {
      epilogue.effects.push_back({Write::DictSet, target, a, b});
      say(trace_.sources.item_text(owner, key, code()));
    }
  }
  if (anew) {
    epilogue.effects.push_back(std::move(e));
    say(trace_.sources.text(owner, code()) + " in another order");
    return true;
  }
  for (PyObject* key : gone) {
    const int a = value(key);
    if (a < 0) return false;
    epilogue.effects.push_back({Write::DictDelete, target, a});
    say("del " + trace_.sources.item_text(owner, key, code()));
  }
  return true;
}

bool EpilogueBuilder::effect_on(const UndoLog::Entry& e) {
  PyObject* t = e.target.get();
  const int s = trace_.sources.find(t);
  if (s < 0) return true;  // new in the trace: its reconstruction, if it has one, says it all
  const int target = value(t);
  if (target < 0) return false;
  if (e.offset >= 0) {
    PyObject* now = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(t) + e.offset);
    const int v = value(now);
    say(trace_.sources.text(s, code()) + "'s slot");
    epilogue.effects.push_back({Write::Member, target, -1, v, e.offset});
    return v >= 0;
  }
  if (PyCell_Check(t)) {
    const int v = value(PyCell_GET(t));
    say(trace_.sources.text(s, code()));
    epilogue.effects.push_back({Write::Cell, target, -1, v});
    return v >= 0;
  }
  if (PyDict_Check(t)) return dict_effect(target, e);
  const Object now = Object::take(items_of(t));
  if (!now) return PyErr_Clear(), false;
  const Py_ssize_t n = PyTuple_GET_SIZE(now.get()), old = PyTuple_GET_SIZE(e.before.get());
  Py_ssize_t same = 0;
  while (same < n && same < old && PyTuple_GET_ITEM(now.get(), same) == PyTuple_GET_ITEM(e.before.get(), same)) ++same;
  if (same == n && same == old) return true;
  const bool append = PyList_Check(t) && same == old && e.only_appended;
  SideEffect effect{append              ? Write::ListAppend
                    : PyList_Check(t)   ? Write::ListAssign
                    : PyAnySet_Check(t) ? Write::SetAssign
                                        : Write::DequeAssign,
                    target};
  for (Py_ssize_t i = append ? old : 0; i < n; ++i) {
    if (PyAnySet_Check(t) && is_hashed_by_program(PyTuple_GET_ITEM(now.get(), i)))
      return fail(PyTuple_GET_ITEM(now.get(), i), Break::KeysWithHashAtExit) >= 0;
    const int v = value(PyTuple_GET_ITEM(now.get(), i));
    if (v < 0) return false;
    effect.parts.push_back(v);
  }
  epilogue.effects.push_back(std::move(effect));
  say("items of " + trace_.sources.text(s, code()));
  return true;
}

bool EpilogueBuilder::effects() {
  for (const UndoLog::Entry* e : trace_.log.entries())
    if (!effect_on(*e)) return false;
  for (const Calls::CachedCall& c : trace_.calls.cached_calls) {
    epilogue.effects.push_back({Write::Call, constant(c.function.get()), c.keywords ? constant(c.keywords.get()) : -1,
                                constant(c.arguments.get())});
    say("a hit of " + name_of_callable(c.function.get()));
  }
  return true;
}

bool EpilogueBuilder::leave_by_return(PyObject* result, int position) {
  epilogue.kind = Epilogue::Kind::Return;
  epilogue.position = position;
  epilogue.result = value(result);
  return epilogue.result >= 0 && effects();
}

bool EpilogueBuilder::leave_by_break(int position) {
  epilogue.kind = Epilogue::Kind::Break;
  epilogue.position = position;
  PyCodeObject* code = code_of(root_);
  const int locals = code->co_nlocalsplus, closure = locals - code->co_nfreevars;
  for (int i = 0; i < locals; ++i) {
    if (trace_.variables.is_entry_value(i)) continue;
    PyObject* x = slot(root_, i);
    if (x && i >= closure && trace_.sources.find(x) < 0 && !trace_.made.contains(x)) {
      const int function = trace_.sources.find(function_of(root_));
      trace_.sources.know(x, trace_.sources.add(SourceKind::ClosureCell, function, i - closure));
    }
    const int v = value(x);
    if (v < 0) return false;
    epilogue.locals.emplace_back(i, v);
  }
  for (int i = 0; i < depth_of(root_); ++i) {
    const int v = value(slot(root_, locals + i));
    if (v < 0) return false;
    epilogue.stack.push_back(v);
  }
  return effects();
}

}  // namespace vesta::capture
