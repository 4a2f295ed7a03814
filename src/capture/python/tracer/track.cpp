// Reading places: what becomes a guard, what gets a source, what stands for a tensor.
#include <cstring>

#include "capture/python/tracer/marks.h"
#include "capture/python/tracer/operator_after_write.h"
#include "capture/python/tracer/tracer.h"

namespace vesta::capture {
namespace {

constexpr Py_ssize_t kMostItems = 1 << 14;

// One object for one meaning: its identity says all.
bool is_singleton(PyObject* x) {
  if (PyType_Check(x) || PyModule_Check(x) || PyCFunction_Check(x) || PyCode_Check(x)) return true;
  PyTypeObject* type = Py_TYPE(x);
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyGetSetDescr_Type ||
      type == &PyMemberDescr_Type || type == &PyClassMethodDescr_Type || type == &PyProperty_Type ||
      type == &PyStaticMethod_Type || type == &PyClassMethod_Type || is_method_wrapper(x))
    return true;
  // Members of an enumeration, torch's dtypes and the like.
  const char* meta = Py_TYPE(type)->tp_name;
  if (std::string_view(meta) == "EnumType" || std::string_view(meta) == "EnumMeta") return true;
  const std::string_view name = type->tp_name;
  return name == "torch.dtype" || name == "torch.layout" || name == "torch.memory_format" || name == "torch.qscheme" ||
         name == "typing.TypeVar" || name == "re.Pattern" || name == "re.Match" || name == "operator.itemgetter" ||
         name == "operator.attrgetter" || name == "operator.methodcaller" || name == "types.GenericAlias" ||
         name == "types.UnionType";
}

// What an object of the class holds is seen by its C code alone: no guard can speak of it.
bool is_closed(PyTypeObject* type) {
  while (type && is_python_class(type)) type = type->tp_base;
  if (!type) return false;
  if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException))) return true;
  const std::string_view name = type->tp_name;
  return name == "bytearray" || name == "memoryview" || name == "collections.deque" || name == "mappingproxy" ||
         name == "types.SimpleNamespace" || name == "traceback" || name.starts_with("dict_") ||
         name.starts_with("odict_");
}

// A number or text whose class is a subclass: its value is what it is for good.
bool is_derived_scalar(PyObject* x) {
  return PyLong_Check(x) || PyFloat_Check(x) || PyUnicode_Check(x) || PyBytes_Check(x) || PyComplex_Check(x);
}

// Made by a class statement of a function: a guard for it would keep it alive, and serve one call.
bool is_local_class(PyObject* x) {
  if (!PyType_Check(x) || !(reinterpret_cast<PyTypeObject*>(x)->tp_flags & Py_TPFLAGS_HEAPTYPE)) return false;
  const char* name = PyUnicode_AsUTF8(reinterpret_cast<PyHeapTypeObject*>(x)->ht_qualname);
  if (!name) PyErr_Clear();
  return name && std::strstr(name, "<locals>") != nullptr;
}

// Immutable, and compared by value without running Python code.
bool is_value(PyObject* x) {
  const std::string_view name = Py_TYPE(x)->tp_name;
  return PyRange_Check(x) || name == "torch.device" || is_numpy_scalar(x);
}

}  // namespace

bool is_guarded_when_tracked(PyObject* x) { return is_singleton(x) || is_value(x); }

PyObject* Tracer::wrap(PyObject* x) {
  if (!x) return nullptr;
  if (const auto it = fake_of_.find(x); it != fake_of_.end()) {
    Py_INCREF(it->second);
    Py_DECREF(x);
    return it->second;
  }
  return x;
}

PyObject* Tracer::track_constant(PyObject* x) {
  if (is_scalar(x)) return Py_NewRef(x);
  const int source = sources.add(SourceKind::Constant, -1, 0, x);
  if (is_tensor(x)) return track_tensor(x, source);
  sources.know(x, source);
  return track_self(x) ? Py_NewRef(x) : nullptr;
}

bool Tracer::track_self(PyObject* f) {
  Object self;
  if (PyCFunction_Check(f))
    self = Object::share(reinterpret_cast<PyCFunctionObject*>(f)->m_self);
  else if (is_method_wrapper(f))
    self = Object::take(PyObject_GetAttrString(f, "__self__"));
  if (!self || is_scalar(self.get()) || sources.find(self.get()) >= 0) return true;
  const Object touched = Object::take(track_constant(self.get()));
  return static_cast<bool>(touched);
}

bool Tracer::track_slice(PyObject* x, int source) {
  static PyObject* const names[] = {PyUnicode_InternFromString("start"), PyUnicode_InternFromString("stop"),
                                    PyUnicode_InternFromString("step")};
  auto* s = reinterpret_cast<PySliceObject*>(x);
  PyObject** const places[] = {&s->start, &s->stop, &s->step};
  for (int i = 0; i < 3; ++i) {
    PyObject* part = *places[i];
    if (!is_scalar(part)) return graph_break(Break::SliceOfObjects), false;
    const auto offset = reinterpret_cast<char*>(places[i]) - reinterpret_cast<char*>(x);
    guard(Check::Equals, sources.add(SourceKind::Member, source, static_cast<int>(offset), names[i]), part);
  }
  return true;
}

PyObject* Tracer::track_int(PyObject* x, int source) {
  if (exact_) return track_scalar(x, source);
  if (const auto it = symbolic_.find(source); it != symbolic_.end()) return Py_NewRef(it->second.get());
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(x, &overflow);
  const std::string name = place(source);
  bool dynamic = false;
  if (!overflow && settings_.history) {
    const std::string key = place_key(source);
    auto [it, first] = settings_.history->numbers.try_emplace(key, ShapeHistory{{value}, {false}});
    if (!first && (it->second.values.size() != 1 || it->second.values[0] != value)) it->second = {{value}, {true}};
    const auto scalar = settings_.history->scalars.find(key);
    const bool asked = scalar != settings_.history->scalars.end() && scalar->second.asked;
    dynamic = it->second.changed[0] && settings_.dynamic.value_or(true) && settings_.symbols && !asked;
  }
  if (dynamic && value >= 2 && value < (1LL << 40)) {
    PyObject* symbol = add_integer_input(value, name);
    if (!symbol) return graph_break(trace_failure());
    guard(Check::Type, source, reinterpret_cast<PyObject*>(&PyLong_Type));
    integers.push_back({source, value});
    symbolic_[source] = Object::share(symbol);
    return symbol;
  }
  return track_scalar(x, source);
}

PyObject* Tracer::track_tensor(PyObject* real, int source) {
  if (is_traced(real)) return Py_NewRef(real);  // what the trace has put there
  guard(Check::Type, source, reinterpret_cast<PyObject*>(Py_TYPE(real)));
  sources.know(real, source);
  if (!is_base_tensor(real)) {
    guard_tensor_class(Py_TYPE(real));
    return aborted_ ? nullptr : Py_NewRef(real);
  }
  if (const auto it = fake_of_.find(real); it != fake_of_.end()) return Py_NewRef(it->second);
  const std::string name = place(source);
  std::vector<bool> dynamic;
  const SourceKind kind = sources[source].kind;
  if (settings_.history && are_strided(real) && kind != SourceKind::Constant) {
    const std::vector<int64_t> sizes = sizes_of(real);
    auto [it, first] = settings_.history->numbers.try_emplace(
        place_key(source), ShapeHistory{sizes, std::vector<bool>(sizes.size(), false)});
    ShapeHistory& history = it->second;
    if (!first) {
      if (history.values.size() != sizes.size()) {
        history = {sizes, std::vector<bool>(sizes.size(), false)};
      } else {
        for (size_t d = 0; d < sizes.size(); ++d)
          if (history.values[d] != sizes[d]) history.changed[d] = true;
        history.values = sizes;
      }
    }
    dynamic = history.changed;
    if (settings_.dynamic) dynamic.assign(sizes.size(), *settings_.dynamic);
    if (!settings_.symbols) dynamic.assign(sizes.size(), false);
    apply_marks(real, dynamic);
  }
  PyObject* fake = add_tensor_input(real, name, kind != SourceKind::Local, dynamic);
  if (!fake) return graph_break(trace_failure());
  sources.keep(fake);
  fake_of_[real] = fake;
  real_of_[fake] = real;
  return fake;
}

PyObject* Tracer::track(PyObject* x, int source) {
  if (PyLong_CheckExact(x)) return track_int(x, source);
  if (is_scalar(x)) {
    if (x != Py_None && !PyBool_Check(x) && x != Py_Ellipsis && x != Py_NotImplemented) return track_scalar(x, source);
    guard(Check::Is, source, x);
    return Py_NewRef(x);
  }
  if (const int known = sources.find(x); known >= 0 && known != source) {
    if (sources[known].kind == SourceKind::Constant)
      guard(Check::Is, source, x);
    else
      guard(Check::Same, source, nullptr, known);
    return wrap(Py_NewRef(x));
  }
  if (is_tensor(x)) return track_tensor(x, source);
  if (sources[source].kind == SourceKind::Local && is_local_class(x)) return graph_break(Break::LocalClassUsed);
  if (sources[source].kind == SourceKind::Local && PyModule_Check(x) && !is_imported(x))
    return graph_break(Break::ModuleNotInTable);
  if (is_singleton(x)) {
    guard(Check::Is, source, x);
    return track_constant(x);
  }
  if (is_value(x)) {
    guard(Check::Equals, source, x);
    return Py_NewRef(x);
  }
  if (PyFunction_Check(x)) {
    guard_code(x, source);
    sources.know(x, source);
    guard_function(x);
    return Py_NewRef(x);
  }
  if (is_symbolic(x)) return graph_break(Break::ForeignSymbol);
  if (exact_ && is_c_iterator(x)) return graph_break(Break::OuterIterator);
  guard(Check::Type, source, reinterpret_cast<PyObject*>(Py_TYPE(x)));
  sources.know(x, source);
  if (is_derived_scalar(x) || is_code_constant(x)) guard(Check::Is, source, x);
  if (PySlice_Check(x) && !track_slice(x, source)) return nullptr;
  if (PyTuple_Check(x)) guard(Check::Length, source, nullptr, PyTuple_GET_SIZE(x));
  if (PyMethod_Check(x)) {
    PyObject* self = track(PyMethod_GET_SELF(x), sources.add(SourceKind::MethodSelf, source));
    if (!self) return nullptr;
    Py_DECREF(self);
    PyObject* function = track(PyMethod_GET_FUNCTION(x), sources.add(SourceKind::MethodFunction, source));
    if (!function) return nullptr;
    Py_DECREF(function);
  }
  if (std::string_view(Py_TYPE(x)->tp_name) == "functools.partial") {
    for (const auto& [kind, name] :
         {std::pair{SourceKind::PartialFunction, "func"}, std::pair{SourceKind::PartialArguments, "args"},
          std::pair{SourceKind::PartialKeywords, "keywords"}}) {
      const Object part = Object::take(PyObject_GetAttrString(x, name));
      if (!part) return nullptr;
      PyObject* touched = track(part.get(), sources.add(kind, source));
      if (!touched) return nullptr;
      Py_DECREF(touched);
      if (kind != SourceKind::PartialFunction && !track_contents(part.get(), 2)) return nullptr;
    }
  }
  return Py_NewRef(x);
}

// ---- containers

Object Tracer::original(PyObject* container) {
  const UndoLog::Entry* e = log.find(container);
  return e ? e->before : Object::share(container);
}

bool Tracer::track_length(PyObject* x) {
  const int source = sources.find(x);
  if (source < 0) return true;
  const Object was = original(x);
  const Py_ssize_t n = PyObject_Size(was.get());
  if (n < 0) return false;
  guard(Check::Length, source, nullptr, n);
  return true;
}

bool Tracer::track_contents(PyObject* x, int depth) {
  if (depth <= 0 || is_scalar(x)) return true;
  if (const auto it = tracked_contents_.find(x); it != tracked_contents_.end() && it->second >= depth) return true;
  if (!track_items(x, depth)) return false;
  // What it held before the trace stays what it was.
  if (sources.find(x) >= 0) tracked_contents_[x] = depth;
  return true;
}

bool Tracer::track_items(PyObject* x, int depth) {
  struct Exact {
    bool& flag;
    const bool before;
    explicit Exact(bool& f) : flag(f), before(f) { f = true; }
    ~Exact() { flag = before; }
  } const exact(exact_);
  const int source = sources.find(x);
  const Object was = source >= 0 ? original(x) : Object::share(x);
  PyObject* c = was.get();
  if (PyTuple_Check(c) || PyList_Check(c)) {
    const Py_ssize_t n = PyTuple_Check(c) ? PyTuple_GET_SIZE(c) : PyList_GET_SIZE(c);
    if (n > kMostItems) return graph_break(Break::ManyItems), false;
    if (source >= 0 && (PyList_Check(x) || PyTuple_Check(x))) {
      guard(Check::Length, source, nullptr, n);
      for (Py_ssize_t i = 0; i < n; ++i) {
        PyObject* item = PyTuple_Check(c) ? PyTuple_GET_ITEM(c, i) : PyList_GET_ITEM(c, i);
        PyObject* touched = track(item, sources.add(SourceKind::SequenceItem, source, static_cast<int>(i)));
        if (!touched) return false;
        Py_DECREF(touched);
      }
    }
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* item = PyTuple_Check(c) ? PyTuple_GET_ITEM(c, i) : PyList_GET_ITEM(c, i);
      if (!track_contents(item, depth - 1)) return false;
    }
    return true;
  }
  if (PyDict_Check(c)) {
    if (PyDict_GET_SIZE(c) > kMostItems) return graph_break(Break::ManyKeys), false;
    if (source >= 0) {
      if (has_keys_of_program(c)) return graph_break(Break::KeysWithHashRead), false;
      const Object keys = Object::take(keys_of(c));
      if (!keys) return false;
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys.get()); ++i) {
        PyObject* key = PyTuple_GET_ITEM(keys.get(), i);
        if (!is_scalar(key) && sources.find(key) < 0) {
          if (PyTuple_Check(key) || is_singleton(key)) {
            sources.know(key, sources.add(SourceKind::Constant, -1, 0, key));
          } else {
            PyObject* touched = track(key, sources.add(SourceKind::DictKey, source, static_cast<int>(i)));
            if (!touched) return false;
            Py_DECREF(touched);
          }
        }
      }
      guard(Check::Keys, source, keys.get());
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys.get()); ++i) {
        PyObject* key = PyTuple_GET_ITEM(keys.get(), i);
        PyObject* value = PyDict_GetItemWithError(c, key);
        if (!value) return PyErr_Occurred() ? false : true;
        PyObject* touched = track(value, sources.add(SourceKind::DictValue, source, 0, key));
        if (!touched) return false;
        Py_DECREF(touched);
      }
    }
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t at = 0;
    std::vector<PyObject*> values;
    while (PyDict_Next(c, &at, &key, &value)) values.push_back(value);
    for (PyObject* v : values)
      if (!track_contents(v, depth - 1)) return false;
    return true;
  }
  if (PyAnySet_Check(c)) {
    if (source < 0) return true;
    if (!holds_plain_keys(c)) return graph_break(Break::SetOfObjects), false;
    const Object expected = Object::take(PyFrozenSet_New(c));
    if (!expected) return false;
    guard(Check::Members, source, expected.get());
    return true;
  }
  if (source >= 0 && std::string_view(Py_TYPE(x)->tp_name) == "collections.deque")
    return graph_break(Break::DequeRead), false;
  return true;
}

bool Tracer::track_state(PyObject* x) {
  PyTypeObject* type = Py_TYPE(x);
  guard_class(type);
  const int source = sources.find(x);
  PyObject* dict = instance_dict(x);
  if (source >= 0 && dict) {
    const int s = sources.add(SourceKind::InstanceDict, source);
    sources.know(dict, s);
    if (!track_contents(dict, 2)) return false;
  }
  return track_contents(x, 2);
}

Object Tracer::unpacked(PyObject* x) {
  const int source = sources.find(x);
  const bool is_dict = PyDict_CheckExact(x), is_tuple = PyTuple_CheckExact(x);
  if (source >= 0 && !log.find(x) && (is_tuple || PyList_CheckExact(x)) && PySequence_Fast_GET_SIZE(x) <= kMostItems) {
    if (!track_length(x)) return {};
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(x);
    Object out = Object::take(is_tuple ? PyTuple_New(n) : PyList_New(n));
    for (Py_ssize_t i = 0; out && i < n; ++i) {
      PyObject* item =
          track(PySequence_Fast_GET_ITEM(x, i), sources.add(SourceKind::SequenceItem, source, static_cast<int>(i)));
      if (!item) return {};
      if (is_tuple)
        PyTuple_SET_ITEM(out.get(), i, item);
      else
        PyList_SET_ITEM(out.get(), i, item);
    }
    return out;
  }
  if (source >= 0 && !log.find(x) && is_dict && PyDict_GET_SIZE(x) <= kMostItems) {
    const Object keys = Object::take(keys_of(x));
    if (!keys) return {};
    const Py_ssize_t n = PyTuple_GET_SIZE(keys.get());
    Py_ssize_t texts = 0;
    while (texts < n && PyUnicode_CheckExact(PyTuple_GET_ITEM(keys.get(), texts))) ++texts;
    if (texts == n) {
      guard(Check::Keys, source, keys.get());
      Object out = Object::take(PyDict_New());
      for (Py_ssize_t i = 0; out && i < n; ++i) {
        PyObject* key = PyTuple_GET_ITEM(keys.get(), i);
        PyObject* value = PyDict_GetItemWithError(x, key);
        const Object item =
            Object::take(value ? track(value, sources.add(SourceKind::DictValue, source, 0, key)) : nullptr);
        if (!item || PyDict_SetItem(out.get(), key, item.get()) < 0) return {};
      }
      return out;
    }
  }
  return operand(x) ? Object::share(x) : Object();
}

bool Tracer::operand(PyObject* x) {
  if (aborted_) return false;
  PyTypeObject* type = Py_TYPE(x);
  if (is_tensor(x)) {
    if (!may_run_operator(log, sources)) return graph_break(Break::OperatorAfterWrite), false;
    guard_tensor_class(type);
    return !aborted_;
  }
  if (is_scalar(x) || is_symbolic(x) || is_symbolic_scalar(x) || is_numpy_scalar(x)) return true;
  if (PyTuple_Check(x) || PyList_Check(x) || PyDict_Check(x) || PyAnySet_Check(x)) {
    if (!track_contents(x, 8)) return false;
  }
  if (type == &PyDictProxy_Type && sources.find(x) >= 0) {
    // Its one member is the mapping it shows.
    constexpr int kMapping = sizeof(PyObject);
    PyObject* mapping = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(x) + kMapping);
    static PyObject* const name = PyUnicode_InternFromString("mapping");
    const Object shown = Object::take(track(mapping, sources.add(SourceKind::Member, sources.find(x), kMapping, name)));
    return shown && operand(shown.get());
  }
  if (sources.find(x) >= 0 && is_closed(type)) return graph_break(Break::ClosedObject, type->tp_name), false;
  if (sources.find(x) >= 0 && is_c_iterator(x)) return graph_break(Break::OuterIterator), false;
  if (is_python_class(type)) {
    guard_class(type);
    return true;
  }
  if (is_known_class(type) || PyType_Check(x)) return may_read_class(x);
  graph_break(Break::UnknownObject, type->tp_name);
  return false;
}

}  // namespace vesta::capture
