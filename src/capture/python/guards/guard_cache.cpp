#include "capture/python/guards/guard_cache.h"

#include <algorithm>
#include <bit>
#include <type_traits>
#include <unordered_set>

#include "capture/python/sources/read_source.h"

namespace vesta::capture {
namespace {

constexpr int kMostRemembered = 64;  // without a repeat in between: each call has other roots
constexpr int kWritesOfUnsteady = 2;
constexpr size_t kManyDicts = 32;  // for fewer, their versions are read as quickly

PyObject** items_of(PyObject* sequence) {
  return PyList_Check(sequence) ? reinterpret_cast<PyListObject*>(sequence)->ob_item
                                : reinterpret_cast<PyTupleObject*>(sequence)->ob_item;
}

}  // namespace

class GuardCache::Finder {
 public:
  explicit Finder(GuardCache& cache) : cache_(cache) {}

  // `watched`: as long as no watched dict changes, the fact holds if those before it do.
  template <class Word>
    requires(std::is_pointer_v<Word> || std::is_same_v<Word, Py_ssize_t>)
  void is(const Word* place, Word value, bool watched = false) {
    add({reinterpret_cast<const uint64_t*>(place), std::bit_cast<uint64_t>(value)}, watched);
  }
  void is_of_size(PyObject* x) { is(&reinterpret_cast<PyVarObject*>(x)->ob_size, Py_SIZE(x)); }
  bool is_version(int source, PyObject* dict) {
    if (!PyDict_Check(dict)) return false;
    // First: Python 3.12 notes in a dict's version that the dict is watched.
    cache_.watches_ = cache_.watches_ && cache_.watch_.add(dict);
    const uint64_t* const version = dict_version_of(dict);
    if (!version) return false;
    cache_.versions_.push_back({source, version, *version});
    add({version, *version}, true);
    return true;
  }
  // The fact by which a source gives `x` again as long as its parent is the same. False: there is none.
  bool is_read(int source, const Source& s, PyObject* parent, PyObject* x);

 private:
  // Two ways may lead over one word. Whatever is behind it comes behind its first fact.
  void add(const Fact& fact, bool watched) {
    if (!known_.insert(fact.place).second) return;
    cache_.all_.words.push_back(fact);
    if (!watched) cache_.unwatched_.words.push_back(fact);
  }

  GuardCache& cache_;
  std::unordered_set<const uint64_t*> known_;
};

GuardCache::GuardCache(CachePlan plan)
    : plan_(std::move(plan)), changing_guards_(plan_.changing_guards), useful_(plan_.useful) {}

void GuardCache::always_check(int guard) {
  const auto at = std::lower_bound(changing_guards_.begin(), changing_guards_.end(), guard);
  if (at == changing_guards_.end() || *at != guard) changing_guards_.insert(at, guard);
}

bool GuardCache::Finder::is_read(int source, const Source& s, PyObject* parent, PyObject* x) {
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
    case SourceKind::DictValue:  // of an unsteady dict
      for (Facts* facts : {&cache_.all_, &cache_.unwatched_}) facts->lookups.push_back({facts->words.size(), source});
      return true;
    default: return true;
  }
}

// A dict that was written since the last check, and still gave what the guards ask for.
void GuardCache::find_unsteady_dicts(const std::vector<Source>& sources, const std::vector<Guard>& guards,
                                     const Registers& r) {
  writes_.resize(sources.size());
  std::vector<bool> unsteady = plan_.unsteady;
  for (const DictVersion& v : versions_) {
    const auto source = static_cast<size_t>(v.source);
    if (registers_[source] != r[v.source] || *v.place == v.value || ++writes_[source] < kWritesOfUnsteady) continue;
    unsteady.resize(sources.size());
    unsteady[source] = true;
  }
  if (unsteady == plan_.unsteady) return;
  plan_ = CachePlan(sources, guards, plan_.written, plan_.loaded, std::move(unsteady));
  changing_guards_ = plan_.changing_guards;
  useful_ = plan_.useful;
  remembered_ = 0;
}

void GuardCache::remember(const std::vector<Source>& sources, const std::vector<Guard>& guards, const Registers& r) {
  if (valid_) find_unsteady_dicts(sources, guards, r);
  valid_ = false;
  ++state_;
  if (!useful_) return;
  if (++remembered_ > kMostRemembered && repeats_ < remembered_) {
    useful_ = false;
    return;
  }
  roots_.clear();
  all_ = unwatched_ = {};
  versions_.clear();
  watch_.clear();
  registers_ = r.objects;
  valid_ = find_facts(sources, guards, r);
}

bool GuardCache::find_facts(const std::vector<Source>& sources, const std::vector<Guard>& guards, const Registers& r) {
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
    if (!x || plan_.is_unsteady(g.source)) continue;
    if (PyDict_Check(x))
      dict_read[source] = 1;
    else if (PyList_Check(x) || PyTuple_Check(x))
      size_read[source] = !(PyTuple_Check(x) && plan_.stays[source] == CachePlan::SameObject);
    else
      always_check(static_cast<int>(i));  // it may change without a sign
  }
  watches_ = static_cast<size_t>(std::count(dict_read.begin(), dict_read.end(), 1)) >= kManyDicts;
  Finder finder(*this);
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
    else if (plan_.stays[i] == CachePlan::SamePlace && parent && !finder.is_read(static_cast<int>(i), s, parent, x))
      return false;
    if (!x) continue;
    // A watched dict that is at its place is the one that it was.
    if (plan_.typed[i])
      finder.is(&x->ob_type, Py_TYPE(x), s.kind == SourceKind::InstanceDict && dict_read[i] && PyDict_CheckExact(x));
    if (size_read[i]) finder.is_of_size(x);
    if (code[i]) {
      auto* function = reinterpret_cast<PyFunctionObject*>(x);
      finder.is(&function->func_code, function->func_code);
      finder.is(&function->func_globals, function->func_globals);
    }
    if (dict_read[i] && !finder.is_version(static_cast<int>(i), x)) {
      useful_ = false;
      return false;
    }
  }
  unchanged_since_ = watch_.changes();
  return true;
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

bool GuardCache::hold(const Facts& facts, const std::vector<Source>& sources) const {
  // The places lie anywhere: each is asked for before it is read. One that is gone may be asked for as well.
  constexpr size_t kAhead = 32;
  const std::vector<Fact>& words = facts.words;
  size_t i = 0;
  const auto hold_until = [&](size_t end) {
    const size_t asked = std::min(end, words.size() > kAhead ? words.size() - kAhead : 0);
    for (; i < asked; ++i) {
      __builtin_prefetch(words[i + kAhead].place);
      if (*words[i].place != words[i].value) return false;
    }
    for (; i < end; ++i)
      if (*words[i].place != words[i].value) return false;
    return true;
  };
  for (const Lookup& l : facts.lookups) {
    if (!hold_until(l.facts)) return false;
    const Source& s = sources[static_cast<size_t>(l.source)];
    PyObject* const dict = registers_[static_cast<size_t>(s.parent)];
    if (read_source(s, {}, dict, nullptr, nullptr) != registers_[static_cast<size_t>(l.source)]) return false;
  }
  return hold_until(words.size());
}

bool GuardCache::repeats(const std::vector<Source>& sources, const Registers& r) const {
  for (const Root& root : roots_) {
    const bool is_read = root.kind == SourceKind::DictValue || root.kind == SourceKind::SequenceItem;
    if (is_read && r[root.index] != root.value) return false;
  }
  const uint64_t changes = watch_.changes();
  const bool unchanged = watches_ && changes == unchanged_since_;
  if (!hold(unchanged ? unwatched_ : all_, sources)) return false;
  unchanged_since_ = changes;
  ++repeats_;
  return true;
}

}  // namespace vesta::capture
