#include "capture/python/guards/guard_cache.h"

#include <algorithm>
#include <unordered_set>

#include "capture/python/values/dict_version.h"

namespace vesta::capture {
namespace {

constexpr int kMostRemembered = 64;  // without a repeat in between: each call has other roots

PyObject** items_of(PyObject* sequence) {
  return PyList_Check(sequence) ? reinterpret_cast<PyListObject*>(sequence)->ob_item
                                : reinterpret_cast<PyTupleObject*>(sequence)->ob_item;
}

}  // namespace

GuardCache::GuardCache(CachePlan plan)
    : plan_(std::move(plan)), changing_guards_(plan_.changing_guards), useful_(plan_.useful) {}

void GuardCache::always_check(int guard) {
  const auto at = std::lower_bound(changing_guards_.begin(), changing_guards_.end(), guard);
  if (at == changing_guards_.end() || *at != guard) changing_guards_.insert(at, guard);
}

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
      if ((Py_TYPE(parent)->tp_flags & Py_TPFLAGS_INLINE_VALUES) &&
          PyObject_GenericSetAttr(parent, "__dict__"_name, x) < 0) {
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
    if (plan_.stays[i] == CachePlan::SameObject &&
        (sources[i].kind == SourceKind::DictValue || sources[i].kind == SourceKind::DictKey))
      dict_read[static_cast<size_t>(sources[i].parent)] = 1;
  for (size_t i = 0; i < guards.size(); ++i) {
    const Guard& g = guards[i];
    const auto source = static_cast<size_t>(g.source < 0 ? 0 : g.source);
    if (g.source < 0 || plan_.stays[source] == CachePlan::Changes) continue;
    if (g.check == Check::Code) code[source] = &g;
    if (g.check != Check::Length && g.check != Check::Keys) continue;
    PyObject* x = r[g.source];
    if (!x) continue;
    if (PyDict_Check(x))
      dict_read[source] = 1;
    else if (PyList_Check(x) || PyTuple_Check(x))
      size_read[source] = !(PyTuple_Check(x) && plan_.stays[source] == CachePlan::SameObject);
    else
      always_check(static_cast<int>(i));  // it may change without a sign
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    if (plan_.stays[i] == CachePlan::Changes) continue;
    const Source& s = sources[i];
    PyObject* x = r.objects[i];
    PyObject* parent = s.parent >= 0 ? r[s.parent] : nullptr;
    const bool is_first = std::find(plan_.first_sources.begin(), plan_.first_sources.end(), static_cast<int>(i)) !=
                          plan_.first_sources.end();
    if (s.parent < 0 && s.kind != SourceKind::Constant)
      roots_.push_back({s.kind, s.index, x});
    else if (is_first)
      roots_.push_back({s.kind, static_cast<int>(i), x});
    else if (plan_.stays[i] == CachePlan::SamePlace && parent && !add_fact(s, parent, x))
      return;
    if (!x) continue;
    if (plan_.typed[i]) is(&x->ob_type, Py_TYPE(x));
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
