#include "capture/python/guards/guard_cache.h"

#include <algorithm>
#include <unordered_set>

#include "capture/python/guards/dict_version.h"
#include "capture/python/tensors/tensors.h"

namespace vesta::capture {
namespace {

constexpr size_t kFewSources = 4;    // a plain check is as quick
constexpr int kMostRemembered = 64;  // without a repeat in between: the roots are others each time

bool is_sequence_type(const PyTypeObject* type) {
  return type && (type->tp_flags & (Py_TPFLAGS_LIST_SUBCLASS | Py_TPFLAGS_TUPLE_SUBCLASS)) != 0;
}

PyObject** items_of(PyObject* sequence) {
  return PyList_Check(sequence) ? reinterpret_cast<PyListObject*>(sequence)->ob_item
                                : reinterpret_cast<PyTupleObject*>(sequence)->ob_item;
}

}  // namespace

// By source.
struct GuardCache::Build {
  std::vector<PyTypeObject*> type;  // that a guard asks for
  std::vector<char> has_dict;       // attributes are read
  std::vector<char> is_written;     // by the segment
  std::vector<bool> loaded;
};

GuardCache::GuardCache(const std::vector<Source>& sources, const std::vector<Guard>& guards,
                       const std::vector<int>& written, const std::vector<bool>& loaded)
    : stays_(sources.size(), Changes), typed_(sources.size(), 0) {
  if (sources.size() < kFewSources) return;
  Build b{std::vector<PyTypeObject*>(sources.size(), nullptr), std::vector<char>(sources.size(), 0),
          std::vector<char>(sources.size(), 0), loaded};
  for (const int w : written) b.is_written[static_cast<size_t>(w)] = 1;
  for (const Source& s : sources)
    if (s.kind == SourceKind::InstanceDict) b.has_dict[static_cast<size_t>(s.parent)] = 1;
  for (const Guard& g : guards)
    if (g.source >= 0 && g.check == Check::Type && PyType_Check(g.expected))
      b.type[static_cast<size_t>(g.source)] = reinterpret_cast<PyTypeObject*>(g.expected);
  choose_sources(sources, b);
  choose_guards(guards, b);
  useful_ = changing_guards_.size() + 2 <= guards.size();
}

// An argument in a tuple or dict that is made for the call.
bool GuardCache::is_read_first(const std::vector<Source>& sources, int source, const Build& b) const {
  const Source& s = sources[static_cast<size_t>(source)];
  if (stays_[static_cast<size_t>(source)] != Changes || b.is_written[static_cast<size_t>(source)]) return false;
  if (s.kind == SourceKind::Local) return true;
  return (s.kind == SourceKind::DictValue || s.kind == SourceKind::SequenceItem) && is_read_first(sources, s.parent, b);
}

void GuardCache::read_first(const std::vector<Source>& sources, int source) {
  if (std::find(first_sources_.begin(), first_sources_.end(), source) != first_sources_.end()) return;
  const Source& s = sources[static_cast<size_t>(source)];
  if (s.kind != SourceKind::Local) read_first(sources, s.parent);
  first_sources_.push_back(source);
}

void GuardCache::choose_sources(const std::vector<Source>& sources, const Build& b) {
  for (size_t i = 0; i < sources.size(); ++i) {
    if (!b.loaded[i]) continue;
    const Source& s = sources[i];
    const auto parent = static_cast<size_t>(s.parent < 0 ? 0 : s.parent);
    const Stay above = s.parent >= 0 && !b.is_written[parent] ? stays_[parent] : Changes;
    // An argument is worth comparing if much hangs on it, and if it may be the same in the next call.
    const bool is_holder =
        b.has_dict[i] && !b.is_written[i] && !(b.type[i] && PyType_IsSubtype(b.type[i], tensor_class()));
    Stay& stays = stays_[i];
    switch (s.kind) {
      case SourceKind::Constant: stays = SameObject; break;
      case SourceKind::Function:
      case SourceKind::Globals:
      case SourceKind::Builtins: stays = SamePlace; break;
      case SourceKind::Local: stays = is_holder ? SamePlace : Changes; break;
      case SourceKind::InstanceDict:
      case SourceKind::Member:
        stays = above ? SamePlace : Changes;
        if (above) typed_[parent] = 1;
        break;
      case SourceKind::DictValue: stays = above ? SameObject : Changes; break;
      case SourceKind::DictKey:
        // An OrderedDict moves a key without a write to the dict.
        stays = above && !(b.type[parent] && PyType_IsSubtype(b.type[parent], &PyODict_Type)) ? SameObject : Changes;
        break;
      case SourceKind::MethodSelf:
      case SourceKind::MethodFunction: stays = above == SameObject ? SameObject : Changes; break;
      case SourceKind::SequenceItem:
        if (above == SameObject && b.type[parent] == &PyTuple_Type)
          stays = SameObject;
        else if (above && is_sequence_type(b.type[parent]))
          stays = SamePlace;
        break;
      case SourceKind::CellContents:
      case SourceKind::ClosureCell:
      case SourceKind::Defaults:
      case SourceKind::KwDefaults: stays = above ? SamePlace : Changes; break;
      default: break;
    }
    if (stays == Changes && s.kind != SourceKind::Local && is_holder &&
        is_read_first(sources, static_cast<int>(i), b)) {
      read_first(sources, s.parent);
      first_sources_.push_back(static_cast<int>(i));
      stays = SamePlace;
    }
    // What is read from an object that may be another one depends on its class.
    if (above == SamePlace && s.kind != SourceKind::InstanceDict) typed_[parent] = 1;
  }
  for (size_t i = 0; i < sources.size(); ++i)
    if (b.loaded[i] && stays_[i] == Changes) changing_sources_.push_back(static_cast<int>(i));
}

void GuardCache::choose_guards(const std::vector<Guard>& guards, const Build& b) {
  for (size_t i = 0; i < guards.size(); ++i) {
    const Guard& g = guards[i];
    const auto source = static_cast<size_t>(g.source < 0 ? 0 : g.source);
    const Stay stay = g.source >= 0 ? stays_[source] : Changes;
    bool stays = stay != Changes;
    switch (g.check) {
      case Check::Type:
        // An object's class may be set, but for classes of C.
        if (stays && (stay == SamePlace || !b.type[source] || b.type[source]->tp_flags & Py_TPFLAGS_HEAPTYPE))
          typed_[source] = 1;
        break;
      case Check::Is:
      case Check::Present:
      case Check::Absent: break;
      case Check::Equals: stays = stay == SameObject; break;
      case Check::Same:
      case Check::Different: stays = stays && stays_[static_cast<size_t>(g.number)] != Changes; break;
      case Check::Length:
      case Check::Keys:
        stays = stays && !b.is_written[source];
        if (g.check == Check::Keys && b.type[source] && PyType_IsSubtype(b.type[source], &PyODict_Type)) stays = false;
        if (stays && stay == SamePlace) typed_[source] = 1;
        break;
      case Check::Code:
        if (stays) typed_[source] = 1;
        break;
      case Check::Members:
      case Check::Class:
      case Check::Tensor:
      case Check::Bare: stays = false; break;
    }
    if (!stays) changing_guards_.push_back(static_cast<int>(i));
  }
}

void GuardCache::always_check(int guard) {
  const auto at = std::lower_bound(changing_guards_.begin(), changing_guards_.end(), guard);
  if (at == changing_guards_.end() || *at != guard) changing_guards_.insert(at, guard);
}

void GuardCache::is_of_size(PyObject* x) { is(&reinterpret_cast<PyVarObject*>(x)->ob_size, Py_SIZE(x)); }

bool GuardCache::add_version(PyObject* dict) {
  const uint64_t* version = PyDict_Check(dict) ? dict_version_of(dict) : nullptr;
  if (version) facts_.push_back({version, *version});
  return version != nullptr;
}

bool GuardCache::add_fact(const Source& s, PyObject* parent, PyObject* x) {
  auto* function = reinterpret_cast<PyFunctionObject*>(parent);
  switch (s.kind) {
    case SourceKind::InstanceDict: {
      if (!x) return true;  // the class has none
      PyObject** place = _PyObject_GetDictPtr(parent);
      if (!place || *place != x) return false;
#if PY_VERSION_HEX >= 0x030d0000
      // While a dict shares its values with the object, writes to attributes do not reach watchers (gh-125608).
      static PyObject* dunder = PyUnicode_InternFromString("__dict__");
      if ((Py_TYPE(parent)->tp_flags & Py_TPFLAGS_INLINE_VALUES) && PyObject_GenericSetAttr(parent, dunder, x) < 0) {
        PyErr_Clear();
        return false;
      }
#endif
      is(place, x);
      return true;
    }
    case SourceKind::SequenceItem: {
      if (!PyList_Check(parent) && !PyTuple_Check(parent)) return false;
      is_of_size(parent);
      PyObject** items = items_of(parent);
      if (PyList_Check(parent)) is(&reinterpret_cast<PyListObject*>(parent)->ob_item, items);
      if (s.index < Py_SIZE(parent)) is(items + s.index, x);
      return true;
    }
    case SourceKind::CellContents:
      if (!PyCell_Check(parent)) return false;
      is(&reinterpret_cast<PyCellObject*>(parent)->ob_ref, x);
      return true;
    case SourceKind::ClosureCell: {
      if (!PyFunction_Check(parent)) return false;
      PyObject* closure = function->func_closure;
      is(&function->func_closure, closure);
      if (!closure) return true;
      is_of_size(closure);
      if (s.index < PyTuple_GET_SIZE(closure)) is(items_of(closure) + s.index, x);
      return true;
    }
    case SourceKind::Defaults:
    case SourceKind::KwDefaults:
      if (!PyFunction_Check(parent)) return false;
      is(s.kind == SourceKind::Defaults ? &function->func_defaults : &function->func_kwdefaults, x);
      return true;
    case SourceKind::Member:
      is(reinterpret_cast<PyObject**>(reinterpret_cast<char*>(parent) + s.index), x);
      return true;
    default: return true;
  }
}

void GuardCache::remember(const std::vector<Source>& sources, const std::vector<Guard>& guards, const Registers& r) {
  valid_ = false;
  ++state_;
  if (!useful_) return;
  if (++remembered_ > kMostRemembered && repeats_ < remembered_) {
    useful_ = false;
    return;
  }
  roots_.clear();
  facts_.clear();
  registers_ = r.objects;
  std::vector<char> dict_read(sources.size(), 0), size_read(sources.size(), 0);
  std::vector<const Guard*> code(sources.size(), nullptr);
  for (size_t i = 0; i < sources.size(); ++i)
    if (stays_[i] == SameObject && (sources[i].kind == SourceKind::DictValue || sources[i].kind == SourceKind::DictKey))
      dict_read[static_cast<size_t>(sources[i].parent)] = 1;
  for (size_t i = 0; i < guards.size(); ++i) {
    const Guard& g = guards[i];
    const auto source = static_cast<size_t>(g.source < 0 ? 0 : g.source);
    if (g.source < 0 || stays_[source] == Changes) continue;
    if (g.check == Check::Code) code[source] = &g;
    if (g.check != Check::Length && g.check != Check::Keys) continue;
    PyObject* x = r[g.source];
    if (!x) continue;
    if (PyDict_Check(x))
      dict_read[source] = 1;
    else if (PyList_Check(x) || PyTuple_Check(x))
      size_read[source] = !(PyTuple_Check(x) && stays_[source] == SameObject);
    else
      always_check(static_cast<int>(i));  // it may change without a sign
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    if (stays_[i] == Changes) continue;
    const Source& s = sources[i];
    PyObject* x = r.objects[i];
    PyObject* parent = s.parent >= 0 ? r[s.parent] : nullptr;
    const bool is_first =
        std::find(first_sources_.begin(), first_sources_.end(), static_cast<int>(i)) != first_sources_.end();
    if (s.parent < 0 && s.kind != SourceKind::Constant)
      roots_.push_back({s.kind, s.index, x});
    else if (is_first)
      roots_.push_back({s.kind, static_cast<int>(i), x});
    else if (stays_[i] == SamePlace && parent && !add_fact(s, parent, x))
      return;
    if (!x) continue;
    if (typed_[i]) is(&x->ob_type, Py_TYPE(x));
    if (size_read[i]) is_of_size(x);
    if (code[i]) {
      auto* function = reinterpret_cast<PyFunctionObject*>(x);
      is(&function->func_code, function->func_code);
      is(&function->func_globals, function->func_globals);
    }
    if (dict_read[i] && !add_version(x)) {
      useful_ = false;
      return;
    }
  }
  // Two ways may lead over one word. Whatever is behind it comes behind its first fact.
  std::unordered_set<const uint64_t*> known;
  std::erase_if(facts_, [&](const Fact& f) { return !known.insert(f.place).second; });
  valid_ = true;
}

bool GuardCache::begins_alike(Frame* f) const {
  if (!valid_) return false;
  for (const Root& root : roots_) {
    bool same = true;
    switch (root.kind) {
      case SourceKind::Local: same = slot(f, root.index) == root.value; break;
      case SourceKind::Function: same = function_of(f) == root.value; break;
      case SourceKind::Globals: same = globals_of(f) == root.value; break;
      case SourceKind::Builtins: same = builtins_of(f) == root.value; break;
      default: break;  // first_sources()
    }
    if (!same) return false;
  }
  return true;
}

bool GuardCache::repeats(const Registers& r) const {
  for (const Root& root : roots_) {
    const bool is_read = root.kind == SourceKind::DictValue || root.kind == SourceKind::SequenceItem;
    if (is_read && r[root.index] != root.value) return false;
  }
  // The places lie anywhere: each is asked for before it is read. One that is gone may be asked for as well.
  constexpr size_t kAhead = 32;
  const size_t asked = facts_.size() > kAhead ? facts_.size() - kAhead : 0;
  for (size_t i = 0; i < asked; ++i) {
    __builtin_prefetch(facts_[i + kAhead].place);
    if (*facts_[i].place != facts_[i].value) return false;
  }
  for (size_t i = asked; i < facts_.size(); ++i)
    if (*facts_[i].place != facts_[i].value) return false;
  ++repeats_;
  return true;
}

}  // namespace vesta::capture
