#include "capture/python/guards/guard.h"

#include "capture/python/guards/guard_cache.h"
#include "capture/python/sources/cached_result.h"
#include "capture/python/sources/compute.h"
#include "capture/python/tensors/tensors.h"

#include <fmt/format.h>

#include <cstring>

#include "capture/python/functions/python_classes.h"

namespace vesta::capture {

bool is_scalar(PyObject* x) {
  return x == Py_None || x == Py_Ellipsis || x == Py_NotImplemented || PyBool_Check(x) || PyLong_CheckExact(x) ||
         PyFloat_CheckExact(x) || PyUnicode_CheckExact(x) || PyBytes_CheckExact(x) || PyComplex_CheckExact(x);
}

bool is_method_wrapper(PyObject* x) {
  static PyTypeObject* const type = [] {
    const Object bound = Object::take(PyObject_GetAttrString(Py_None, "__repr__"));
    return bound ? Py_TYPE(bound.get()) : nullptr;
  }();
  return Py_TYPE(x) == type;
}

bool is_plain_key(PyObject* x) {
  if (PyFunction_Check(x) || PyCFunction_Check(x)) return true;
  for (PyTypeObject* type : {&PyMethodDescr_Type, &PyWrapperDescr_Type, &PyGetSetDescr_Type, &PyMemberDescr_Type})
    if (Py_TYPE(x) == type) return true;
  if (is_method_wrapper(x)) return true;
  return PyType_Check(x) && Py_TYPE(x)->tp_hash == PyType_Type.tp_hash &&
         Py_TYPE(x)->tp_richcompare == PyType_Type.tp_richcompare;
}

bool holds_plain_keys(PyObject* set) {
  const Object items = Object::take(PyObject_GetIter(set));
  while (items) {
    const Object item = Object::take(PyIter_Next(items.get()));
    if (!item) break;
    if (!is_scalar(item.get()) && !is_plain_key(item.get())) return false;
  }
  PyErr_Clear();
  return true;
}

bool same_scalar(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyFloat_CheckExact(a)) {
    const double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
    return std::memcmp(&x, &y, sizeof(x)) == 0;  // NOLINT(bugprone-suspicious-memory-comparison): bit for bit
  }
  if (PyComplex_CheckExact(a)) {
    const Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
    return std::memcmp(&x, &y, sizeof(x)) == 0;  // NOLINT(bugprone-suspicious-memory-comparison): bit for bit
  }
  if (PyUnicode_CheckExact(a))
    return PyUnicode_GET_LENGTH(a) == PyUnicode_GET_LENGTH(b) && PyUnicode_Compare(a, b) == 0;
  if (PyLong_CheckExact(a) || PyBytes_CheckExact(a) || PyRange_Check(a) ||
      std::strcmp(Py_TYPE(a)->tp_name, "torch.device") == 0)
    return PyObject_RichCompareBool(a, b, Py_EQ) == 1;
  if (PyFloat_Check(a) && is_numpy_scalar(a)) {
    const double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
    return std::memcmp(&x, &y, sizeof(x)) == 0;  // NOLINT(bugprone-suspicious-memory-comparison): bit for bit
  }
  if (is_numpy_scalar(a)) {
    const int same = PyObject_RichCompareBool(a, b, Py_EQ);
    if (same < 0) PyErr_Clear();
    return same == 1;
  }
  return false;
}

PyObject* keys_of(PyObject* dict) {
  // The plain order of insertion, but for an OrderedDict, which keeps its own.
  if (PyDict_CheckExact(dict) || !PyODict_Check(dict)) {
    PyObject* list = PyDict_Keys(dict);
    if (!list) return nullptr;
    PyObject* out = PyList_AsTuple(list);
    Py_DECREF(list);
    return out;
  }
  PyObject* keys = PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyODict_Type), "keys", "O", dict);
  if (!keys) return nullptr;
  PyObject* out = PySequence_Tuple(keys);
  Py_DECREF(keys);
  return out;
}

PyObject* instance_dict(PyObject* object) {
  if (PyObject** p = _PyObject_GetDictPtr(object); p && *p) return *p;
  if (!Py_TYPE(object)->tp_dictoffset && !(Py_TYPE(object)->tp_flags & (1UL << 4))) return nullptr;
  PyObject* dict = PyObject_GenericGetDict(object, nullptr);
  if (!dict) {
    PyErr_Clear();
    return nullptr;
  }
  Py_DECREF(dict);  // the object owns it
  return dict;
}

bool is_bare(PyObject* x) {
  PyObject** dict = _PyObject_GetDictPtr(x);
  return !dict || !*dict || PyDict_GET_SIZE(*dict) == 0;
}

unsigned version_of(PyTypeObject* type) {
  if (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) return type->tp_version_tag;
  // A lookup assigns one.
  static PyObject* name = PyUnicode_InternFromString("__vesta_version__");
  _PyType_Lookup(type, name);
  return type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG ? type->tp_version_tag : 0;
}

GuardProgram::GuardProgram(SourceTable sources, std::vector<Guard> guards, std::vector<Lookup> lookups,
                           std::vector<int> needed, std::vector<int> written, std::vector<int> objects)
    : sources_(std::move(sources)),
      guards_(std::move(guards)),
      lookups_(std::move(lookups)),
      written_(std::move(written)),
      objects_(std::move(objects)),
      versions_(guards_.size(), 0) {
  for (Guard& g : guards_) {
    if (g.check == Check::Keys) {
      g.number = static_cast<int64_t>(keys_.size());
      keys_.emplace_back();
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(g.expected); ++i) {
        keys_.back().push_back(PyTuple_GET_ITEM(g.expected, i));
        kept_.push_back(Object::share(keys_.back().back()));
      }
      g.expected = nullptr;
    }
    if (g.check == Check::Code) kept_.push_back(Object::share(reinterpret_cast<PyObject*>(g.number)));
    if (g.expected) kept_.push_back(Object::share(g.expected));
    if (g.asked_in) kept_.push_back(Object::share(reinterpret_cast<PyObject*>(g.asked_in)));
  }
  for (const Lookup& l : lookups_) {
    kept_.push_back(Object::share(reinterpret_cast<PyObject*>(l.type)));
    kept_.push_back(Object::share(l.name));
    kept_.push_back(Object::share(l.found));
  }
  std::vector<bool> loaded(static_cast<size_t>(sources_.size()), false);
  auto load_step = [&](auto&& self, int source) -> void {
    if (source < 0 || loaded[static_cast<size_t>(source)]) return;
    self(self, sources_[source].parent);
    self(self, sources_[source].other);
    loaded[static_cast<size_t>(source)] = true;
    steps_.push_back({source, -1});
  };
  for (size_t i = 0; i < guards_.size(); ++i) {
    load_step(load_step, guards_[i].source);
    if (guards_[i].check == Check::Same || guards_[i].check == Check::Different)
      load_step(load_step, static_cast<int>(guards_[i].number));
    steps_.push_back({-1, static_cast<int>(i)});
    if (guards_[i].check == Check::Class)
      versions_[i] = version_of(reinterpret_cast<PyTypeObject*>(guards_[i].expected));
  }
  for (const int source : needed) load_step(load_step, source);
  if (!written_.empty())
    for (const int source : objects_) load_step(load_step, source);
  cache_ = std::make_shared<GuardCache>(sources_.all(), guards_, written_, loaded);
}

int GuardProgram::traverse(visitproc visit, void* arg) const {
  for (const std::vector<Object>* holder : {&kept_, &sources_.kept()})
    for (const Object& o : *holder) Py_VISIT(o.get());
  return 0;
}

void GuardProgram::add_holders(std::vector<std::vector<Object>*>& holders) {
  holders.push_back(&kept_);
  holders.push_back(&sources_.kept());
}

Roots roots_of(Frame* f) { return {slots(f), function_of(f), globals_of(f), builtins_of(f)}; }

void GuardProgram::load(int source, const Roots& roots, Registers& r) const {
  r[source] = find(sources_[source], roots, r);
}

PyObject* GuardProgram::find(const Source& s, const Roots& roots, Registers& r) const {
  PyObject* parent = s.parent >= 0 ? r[s.parent] : nullptr;
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
    case SourceKind::Member: return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(parent) + s.index);
    case SourceKind::MethodSelf: return PyMethod_Check(parent) ? PyMethod_GET_SELF(parent) : nullptr;
    case SourceKind::MethodFunction: return PyMethod_Check(parent) ? PyMethod_GET_FUNCTION(parent) : nullptr;
    case SourceKind::PartialFunction:
    case SourceKind::PartialArguments:
    case SourceKind::PartialKeywords: {
      // Their layout is private; the members are plain C getters of objects the partial owns.
      const char* name = s.kind == SourceKind::PartialFunction    ? "func"
                         : s.kind == SourceKind::PartialArguments ? "args"
                                                                  : "keywords";
      PyObject* x = PyObject_GetAttrString(parent, name);
      if (!x) {
        PyErr_Clear();
        return nullptr;
      }
      Py_DECREF(x);
      return x;
    }
    case SourceKind::Referent: return PyWeakref_CheckRef(parent) ? PyWeakref_GetObject(parent) : nullptr;
    case SourceKind::Flag: {
      PyObject* x = PyObject_CallNoArgs(parent);
      if (!x) PyErr_Clear();
      const bool truth = x == Py_True;
      if (x && !PyBool_Check(x)) Py_SETREF(x, nullptr);
      if (!x) return nullptr;
      Py_DECREF(x);
      return truth ? Py_True : Py_False;
    }
    case SourceKind::ContextValue: {
      PyObject* x = nullptr;
      if (!PyContextVar_CheckExact(parent) || PyContextVar_Get(parent, nullptr, &x) < 0) PyErr_Clear();
      Py_XDECREF(x);  // the context, or the variable whose default it is, owns it
      return x;
    }
    case SourceKind::Cached: return cached_result(parent, s.key);
    case SourceKind::Computed: {
      PyObject* other = s.other >= 0 ? r[s.other] : nullptr;
      if ((s.other >= 0 && !other) || !is_scalar(parent)) return nullptr;
      r.computed.resize(static_cast<size_t>(sources_.size()));
      Object& place = r.computed[static_cast<size_t>(&s - sources_.all().data())];
      place = Object::take(compute(s.index, parent, other, s.key));
      if (!place) PyErr_Clear();
      return place.get();
    }
  }
  return nullptr;
}

bool GuardProgram::class_is_as_it_was(const Guard& g) const {
  auto* type = reinterpret_cast<PyTypeObject*>(g.expected);
  for (const Lookup& l : lookups_)
    if (l.type == type && (!l.name || _PyType_Lookup(type, l.name) != l.found)) return false;
  return true;
}

bool GuardProgram::holds(const Guard& g, PyObject* x, const Registers& r) const {
  if (g.check == Check::Absent) return x == nullptr;
  if (g.check == Check::Class) {
    unsigned& seen = versions_[static_cast<size_t>(&g - guards_.data())];
    auto* type = reinterpret_cast<PyTypeObject*>(g.expected);
    if (seen && (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) && type->tp_version_tag == seen) return true;
    if (!class_is_as_it_was(g)) return false;
    seen = version_of(type);
    return true;
  }
  if (!x) return false;
  switch (g.check) {
    case Check::Type: return reinterpret_cast<PyObject*>(Py_TYPE(x)) == g.expected;
    case Check::Is: return x == g.expected;
    case Check::Equals: return same_scalar(x, g.expected);
    case Check::Present: return true;
    case Check::Length:
      if (PyList_Check(x)) return PyList_GET_SIZE(x) == g.number;
      if (PyTuple_Check(x)) return PyTuple_GET_SIZE(x) == g.number;
      if (PyDict_Check(x)) return PyDict_GET_SIZE(x) == g.number;
      return PyAnySet_Check(x) && PySet_GET_SIZE(x) == g.number;
    case Check::Keys: {
      const std::vector<PyObject*>& expected = keys_[static_cast<size_t>(g.number)];
      if (!PyDict_Check(x) || PyDict_GET_SIZE(x) != static_cast<Py_ssize_t>(expected.size())) return false;
      auto same = [](PyObject* a, PyObject* b) { return a == b || (is_scalar(a) && same_scalar(a, b)); };
      if (PyODict_Check(x)) {
        PyObject* keys = keys_of(x);
        if (!keys) {
          PyErr_Clear();
          return false;
        }
        bool all = true;
        for (Py_ssize_t i = 0; all && i < PyTuple_GET_SIZE(keys); ++i)
          all = same(PyTuple_GET_ITEM(keys, i), expected[static_cast<size_t>(i)]);
        Py_DECREF(keys);
        return all;
      }
      Py_ssize_t at = 0;
      PyObject* key = nullptr;
      for (PyObject* wanted : expected)
        if (!PyDict_Next(x, &at, &key, nullptr) || !same(key, wanted)) return false;
      return true;
    }
    case Check::Members: {
      if (!PyAnySet_Check(x) || PySet_GET_SIZE(x) != PySet_GET_SIZE(g.expected)) return false;
      // Those compare without running Python code.
      if (!holds_plain_keys(x)) return false;
      const int equal = PyObject_RichCompareBool(x, g.expected, Py_EQ);
      if (equal < 0) PyErr_Clear();
      return equal == 1;
    }
    case Check::Code:
      return PyFunction_Check(x) && PyFunction_GET_CODE(x) == g.expected &&
             reinterpret_cast<int64_t>(PyFunction_GET_GLOBALS(x)) == g.number;
    case Check::Tensor: return is_tensor(x) && tensor_flags(x) == g.number;
    case Check::Bare: return is_bare(x);
    case Check::Same: return x == r[static_cast<int>(g.number)];
    case Check::Different: return x != r[static_cast<int>(g.number)];
    case Check::Absent:
    case Check::Class: break;
  }
  return false;
}

int GuardProgram::check_all(const Roots& roots, Registers& r) const {
  r.objects.assign(static_cast<size_t>(sources_.size()), nullptr);
  r.of_cache = 0;
  for (const Step& s : steps_) {
    if (s.source >= 0) {
      load(s.source, roots, r);
    } else {
      const Guard& g = guards_[static_cast<size_t>(s.guard)];
      if (!holds(g, g.source >= 0 ? r[g.source] : nullptr, r)) return s.guard;
    }
  }
  return is_aliased(r, objects_) ? kAliased : kHolds;
}

bool GuardProgram::is_aliased(const Registers& r, const std::vector<int>& objects) const {
  for (const int w : written_)
    for (const int o : objects)
      if (o != w && r[o] && r[o] == r[w]) return true;
  return false;
}

int GuardProgram::check_without(const std::vector<bool>& without, const Roots& roots, Registers& r) const {
  r.objects.assign(static_cast<size_t>(sources_.size()), nullptr);
  r.of_cache = 0;
  const auto is_left_out = [&](int source) { return source >= 0 && without[static_cast<size_t>(source)]; };
  for (const Step& s : steps_) {
    if (s.source >= 0) {
      if (!is_left_out(s.source)) load(s.source, roots, r);
      continue;
    }
    const Guard& g = guards_[static_cast<size_t>(s.guard)];
    const bool pairs = g.check == Check::Same || g.check == Check::Different;
    if (is_left_out(g.source) || (pairs && is_left_out(static_cast<int>(g.number)))) continue;
    if (!holds(g, g.source >= 0 ? r[g.source] : nullptr, r)) return s.guard;
  }
  return kHolds;
}

int GuardProgram::check(Frame* f, Registers& r) const {
  const Roots roots = roots_of(f);
  GuardCache& memo = *cache_;
  if (memo.begins_alike(f)) {
    const uint64_t state = memo.state();
    if (r.of_cache != state) {
      r.objects = memo.registers();
      r.apart = false;
    }
    r.of_cache = state;
    // Two objects are one, or not, as long as the registers are the same.
    const auto load_again = [&](int source) {
      PyObject* const was = r[source];
      load(source, roots, r);
      if (r[source] != was) r.apart = false;
    };
    for (const int source : memo.first_sources()) load_again(source);
    bool holds_all = memo.state() == state && memo.repeats(r);
    if (holds_all)
      for (const int source : memo.changing_sources()) load_again(source);
    const std::vector<int>& changing = memo.changing_guards();
    for (size_t i = 0; holds_all && i < changing.size(); ++i) {
      const Guard& g = guards_[static_cast<size_t>(changing[i])];
      holds_all = holds(g, g.source >= 0 ? r[g.source] : nullptr, r);
    }
    if (holds_all && memo.state() == state) {
      r.apart = r.apart || written_.empty() || !is_aliased(r, objects_);
      if (r.apart) return kHolds;
    }
  }
  const int failed = check_all(roots, r);
  if (failed == kHolds && memo.useful()) memo.remember(sources_.all(), guards_, r);
  return failed;
}

namespace {
// Without running the user's code.
std::string show(PyObject* x) {
  if (!x) return "nothing";
  if (is_scalar(x)) {
    PyObject* s = PyObject_Repr(x);
    const char* p = s ? PyUnicode_AsUTF8(s) : nullptr;
    std::string out = p ? p : "?";
    Py_XDECREF(s);
    PyErr_Clear();
    return out.size() > 80 ? out.substr(0, 77) + "..." : out;
  }
  if (PyType_Check(x)) return std::string("class ") + reinterpret_cast<PyTypeObject*>(x)->tp_name;
  return fmt::format("{} at {}", Py_TYPE(x)->tp_name, static_cast<void*>(x));
}
std::string length(PyObject* x) {
  const Py_ssize_t n =
      x && (PyList_Check(x) || PyTuple_Check(x) || PyDict_Check(x) || PyAnySet_Check(x)) ? PyObject_Size(x) : -1;
  PyErr_Clear();
  return std::to_string(n);
}
}  // namespace

std::string GuardProgram::text(const Guard& g) const {
  const std::string what = g.source >= 0 ? sources_.text(g.source, reinterpret_cast<PyObject*>(code)) : "";
  switch (g.check) {
    case Check::Type: return fmt::format("type({}) is {}", what, reinterpret_cast<PyTypeObject*>(g.expected)->tp_name);
    case Check::Same:
    case Check::Different:
      return fmt::format("{} {} {}", what, g.check == Check::Same ? "is" : "is not",
                         sources_.text(static_cast<int>(g.number), reinterpret_cast<PyObject*>(code)));
    case Check::Is: return fmt::format("{} is {}", what, show(g.expected));
    case Check::Equals: return fmt::format("{} == {}", what, show(g.expected));
    case Check::Present: return fmt::format("{} exists", what);
    case Check::Absent: return fmt::format("{} does not exist", what);
    case Check::Length: return fmt::format("len({}) == {}", what, g.number);
    case Check::Keys: return fmt::format("the keys of {} and their order", what);
    case Check::Members: return fmt::format("the items of {}", what);
    case Check::Class:
      return fmt::format("class {} is unchanged", reinterpret_cast<PyTypeObject*>(g.expected)->tp_name);
    case Check::Code: return fmt::format("the code of {}", what);
    case Check::Bare: return fmt::format("{} has no attributes of its own", what);
    case Check::Tensor: return fmt::format("requires_grad, is_leaf and inference mode of {}", what);
  }
  return "";
}

CaptureDifference GuardProgram::difference(int guard, const Registers& r) const {
  if (guard == kAliased) return {"two names that were different objects are one object, which is written", "", "", {}};
  const Guard& g = guards_[static_cast<size_t>(guard)];
  PyObject* x = g.source >= 0 ? r[g.source] : nullptr;
  CaptureDifference d{text(g), "", "", {}};
  switch (g.check) {
    case Check::Type:
      d.was = reinterpret_cast<PyTypeObject*>(g.expected)->tp_name;
      d.now = x ? Py_TYPE(x)->tp_name : "nothing";
      break;
    case Check::Length:
      d.was = std::to_string(g.number);
      d.now = length(x);
      break;
    case Check::Is:
    case Check::Equals:
      d.was = show(g.expected);
      d.now = show(x);
      break;
    case Check::Class:
    case Check::Keys:
    case Check::Members:
    case Check::Tensor:
    case Check::Bare:
    case Check::Code: d.now = "changed"; break;
    default: d.now = show(x);
  }
  return d;
}

}  // namespace vesta::capture
