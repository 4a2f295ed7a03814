#include "capture/python/epilogue/reconstruct.h"

#include "capture/python/epilogue/quiet.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/values/classes.h"
#include "capture/python/values/keys.h"

namespace vesta::capture {

Reconstructor::Reconstructor(const Epilogue& epilogue, const std::vector<Object>& found,
                             const std::vector<Object>& outputs)
    : epilogue_(epilogue), found_(found), outputs_(outputs), made_(epilogue.reconstructions.size(), nullptr) {}

Reconstructor::~Reconstructor() {
  for (PyObject* x : made_) Py_XDECREF(x);
}

PyObject* Reconstructor::make(int reconstruction) {
  PyObject*& x = made_[static_cast<size_t>(reconstruction)];
  if (!x) x = build(epilogue_.reconstructions[static_cast<size_t>(reconstruction)], reconstruction);
  return x;
}

bool Reconstructor::make_all(const Reconstruction& r, std::vector<PyObject*>& parts) {
  for (const int part : r.parts) {
    parts.push_back(make(part));
    if (!parts.back()) return false;
  }
  return true;
}

bool Reconstructor::fill(PyObject* x, const std::vector<int>& parts) {
  const bool is_dict = PyDict_Check(x);
  for (size_t i = 0; i < parts.size(); ++i) {
    PyObject* part = make(parts[i]);
    PyObject* value = part && is_dict ? make(parts[++i]) : part;
    if (!value) return false;
    const int status = is_dict           ? set_dict_item(x, part, value)
                       : PyList_Check(x) ? PyList_Append(x, part)
                                         : PySet_Add(x, part);
    if (status < 0) return false;
  }
  return true;
}

bool Reconstructor::fill_instance(PyObject* x, const Reconstruction& r) {
  if (r.index > 0) {
    PyObject* dict = instance_dict(x);
    if (!dict) return PyErr_SetString(PyExc_SystemError, "a rebuilt object has no __dict__"), false;
    for (size_t i = 0; i < static_cast<size_t>(r.index); ++i) {
      PyObject* key = make(r.parts[1 + 2 * i]);
      PyObject* value = make(r.parts[2 + 2 * i]);
      if (!key || !value || PyDict_SetItem(dict, key, value) < 0) return false;
    }
  }
  for (size_t i = 1 + 2 * static_cast<size_t>(r.index); i + 1 < r.parts.size(); i += 2) {
    PyObject* value = make(r.parts[i + 1]);
    if (!value && PyErr_Occurred()) return false;
    PyObject*& place = member_at(x, r.parts[i]);
    Py_XSETREF(place, Py_XNewRef(value));
  }
  return true;
}

PyObject* Reconstructor::build(const Reconstruction& r, int id) {
  PyObject*& self = made_[static_cast<size_t>(id)];
  std::vector<PyObject*> parts;
  auto part = [&](size_t i) { return make(r.parts[i]); };
  switch (r.make) {
    case Make::Null: return nullptr;
    case Make::Constant: return Py_NewRef(r.object);
    case Make::Source: return Py_XNewRef(found_[static_cast<size_t>(r.index)].get());
    case Make::Output: return Py_NewRef(outputs_[static_cast<size_t>(r.index)].get());
    case Make::Tuple: {
      if (!make_all(r, parts)) return nullptr;
      PyObject* t = PyTuple_New(static_cast<Py_ssize_t>(parts.size()));
      for (size_t i = 0; t && i < parts.size(); ++i)
        PyTuple_SET_ITEM(t, static_cast<Py_ssize_t>(i), Py_NewRef(parts[i]));
      return t;
    }
    case Make::StructSequence: {
      if (!make_all(r, parts)) return nullptr;
      PyObject* t = PyStructSequence_New(reinterpret_cast<PyTypeObject*>(r.object));
      for (size_t i = 0; t && i < parts.size(); ++i)
        PyStructSequence_SetItem(t, static_cast<Py_ssize_t>(i), Py_NewRef(parts[i]));
      return t;
    }
    case Make::List: self = PyList_New(0); return self && fill(self, r.parts) ? self : nullptr;
    case Make::Set:
    case Make::FrozenSet: {
      Object s = Object::take(r.make == Make::Set ? PySet_New(nullptr) : PyFrozenSet_New(nullptr));
      return s && fill(s.get(), r.parts) ? s.release() : nullptr;
    }
    case Make::Dict:
    case Make::OrderedDict:
      self = r.make == Make::Dict ? PyDict_New() : PyODict_New();
      return self && fill(self, r.parts) ? self : nullptr;
    case Make::Slice: return PySlice_New(part(0), part(1), part(2));
    case Make::Cell: {
      self = PyCell_New(nullptr);
      if (!self) return nullptr;
      PyObject* contents = part(0);
      if (!contents && PyErr_Occurred()) return nullptr;
      if (contents) PyCell_Set(self, contents);
      return self;
    }
    case Make::Function: {
      PyObject* globals = part(0);
      PyObject* name = part(1);
      if (!globals || !name) return nullptr;
      self = PyFunction_NewWithQualName(r.object, globals, name);
      if (!self) return nullptr;
      PyObject* defaults = part(2);
      PyObject* kwdefaults = part(3);
      PyObject* closure = part(4);
      PyObject* dict = part(5);
      PyObject* annotations = part(6);
      PyObject* type_params = part(7);
      if (PyErr_Occurred()) return nullptr;
      if (defaults && PyFunction_SetDefaults(self, defaults) < 0) return nullptr;
      if (kwdefaults && PyFunction_SetKwDefaults(self, kwdefaults) < 0) return nullptr;
      if (closure && PyFunction_SetClosure(self, closure) < 0) return nullptr;
      if (dict && PyObject_SetAttrString(self, "__dict__", dict) < 0) return nullptr;
      if (annotations && PyDict_Check(annotations) && PyDict_GET_SIZE(annotations) > 0 &&
          PyFunction_SetAnnotations(self, annotations) < 0)
        return nullptr;
      if (type_params && PyObject_SetAttrString(self, "__type_params__", type_params) < 0) return nullptr;
      // functools.wraps gives a function the names of another one.
      auto* f = reinterpret_cast<PyFunctionObject*>(self);
      for (const auto& [field, i] : {std::pair{&f->func_name, 8}, {&f->func_doc, 9}, {&f->func_module, 10}}) {
        PyObject* x = part(i);
        if (!x && PyErr_Occurred()) return nullptr;
        Py_XSETREF(*field, Py_XNewRef(x));
      }
      return self;
    }
    case Make::Method: {
      PyObject *f = part(0), *owner = part(1);
      return f && owner ? PyMethod_New(f, owner) : nullptr;
    }
    case Make::Instance: {
      auto* type = reinterpret_cast<PyTypeObject*>(r.object);
      PyTypeObject* base = type;
      while ((base->tp_flags & Py_TPFLAGS_HEAPTYPE) && base->tp_base && base != &PyODict_Type) base = base->tp_base;
      if (base == &PyBaseObject_Type || base == &PyDict_Type || base == &PyODict_Type || base == &PyList_Type ||
          base == &PySet_Type) {
        // It may hold itself: the empty object comes first, its items then.
        const Object empty = Object::take(PyTuple_New(0));
        self = empty ? base->tp_new(type, empty.get(), nullptr) : nullptr;
        const Reconstruction& payload = epilogue_.reconstructions[static_cast<size_t>(r.parts[0])];
        if (self && !fill(self, payload.parts)) return nullptr;
      } else {
        PyObject* payload = part(0);
        const Object arguments = Object::take(payload ? PyTuple_Pack(1, payload) : nullptr);
        self = arguments ? base->tp_new(type, arguments.get(), nullptr) : nullptr;
      }
      return self && fill_instance(self, r) ? self : nullptr;
    }
    case Make::Call:
      if (!make_all(r, parts)) return nullptr;
      return PyObject_Vectorcall(parts[0], parts.data() + 1, parts.size() - 1, nullptr);
    case Make::Subclass: {
      PyObject *tensor = part(0), *type = tensor ? part(1) : nullptr, *attributes = type ? part(2) : nullptr;
      if (PyErr_Occurred()) return nullptr;
      Object x = Object::take(as_subclass(tensor, type));
      if (x && attributes && PyDict_Update(instance_dict(x.get()), attributes) < 0) return nullptr;
      return x.release();
    }
    case Make::DictIterator: {
      PyObject* dict = part(0);
      const Object view = Object::take(
          dict ? PyObject_CallMethodOneArg(reinterpret_cast<PyObject*>(&PyDict_Type), r.object, dict) : nullptr);
      Object iterator = Object::take(view ? PyObject_GetIter(view.get()) : nullptr);
      for (int i = 0; iterator && i < r.index; ++i) {
        const Object passed = Object::take(PyIter_Next(iterator.get()));
        if (!passed && PyErr_Occurred()) return nullptr;
      }
      return iterator.release();
    }
    case Make::CallState: {
      PyObject *f = part(0), *args = part(1);
      if (!f || !args) return nullptr;
      Object x = Object::take(PyObject_CallObject(f, args));
      if (!x) return nullptr;
      if (PyObject* state = r.parts.size() > 2 ? part(2) : nullptr) {
        PyObject* dict =
            PyDict_Check(state) && !PyObject_HasAttrString(x.get(), "__setstate__") ? instance_dict(x.get()) : nullptr;
        // A state may be a tuple, which is one argument.
        const Object done = dict ? Object::share(Py_None) : call_quietly(x.get(), "__setstate__"_name, state);
        if (!done || (dict && PyDict_Update(dict, state) < 0)) return nullptr;
      }
      PyObject* items = r.parts.size() > 3 ? part(3) : nullptr;
      PyObject* pairs = r.parts.size() > 4 ? part(4) : nullptr;
      if (PyErr_Occurred()) return nullptr;
      if (items) {
        const Object done = Object::take(PyObject_CallMethod(x.get(), "extend", "O", items));
        if (!done) return nullptr;
      }
      for (PyObject* pair : span_of(pairs))
        if (PyObject_SetItem(x.get(), PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1)) < 0) return nullptr;
      return x.release();
    }
  }
  return nullptr;
}

}  // namespace vesta::capture
