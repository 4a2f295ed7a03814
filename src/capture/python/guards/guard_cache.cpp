#include "capture/python/guards/guard_cache.h"

#include <algorithm>

namespace vesta::capture {
namespace {

constexpr int kMostRemembered = 64;  // without a repeat in between: each call has other roots
constexpr int kWritesOfUnsteady = 2;

}  // namespace

GuardCache::GuardCache(CachePlan plan)
    : plan_(std::move(plan)), changing_guards_(plan_.changing_guards), useful_(plan_.useful) {}

void GuardCache::always_check(int guard) {
  const auto at = std::lower_bound(changing_guards_.begin(), changing_guards_.end(), guard);
  if (at == changing_guards_.end() || *at != guard) changing_guards_.insert(at, guard);
}

// A dict that was written since the last check, and still gave what the guards ask for.
void GuardCache::find_unsteady_dicts(const std::vector<Source>& sources, const std::vector<Guard>& guards,
                                     const Registers& r) {
  writes_.resize(sources.size());
  std::vector<bool> unsteady = plan_.unsteady;
  for (const Facts::DictVersion& v : facts_.versions()) {
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
  registers_ = r.objects;
  valid_ = find_facts(sources, guards, r);
  facts_.finish();
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
  const auto stays = [&](int source) { return plan_.stays[static_cast<size_t>(source)] == CachePlan::SameObject; };
  facts_.begin(static_cast<size_t>(std::count(dict_read.begin(), dict_read.end(), 1)));
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
    else if (plan_.stays[i] == CachePlan::SamePlace && parent &&
             !facts_.is_read(static_cast<int>(i), s, parent, stays(s.parent), x))
      return false;
    if (!x) continue;
    if (plan_.typed[i]) {
      // A watched dict that is at its place is the one that it was.
      const bool is_watched = s.kind == SourceKind::InstanceDict && dict_read[i] && PyDict_CheckExact(x);
      facts_.is(&x->ob_type, Py_TYPE(x),
                is_watched ? Facts::DictsChanged : facts_.after_parts(x, stays(static_cast<int>(i))));
    }
    if (size_read[i]) facts_.is_of_size(x);
    if (code[i]) {
      auto* function = reinterpret_cast<PyFunctionObject*>(x);
      facts_.is(&function->func_code, function->func_code);
      facts_.is(&function->func_globals, function->func_globals);
    }
    if (dict_read[i] && !facts_.is_version(static_cast<int>(i), x)) {
      useful_ = false;
      return false;
    }
  }
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

bool GuardCache::repeats(const std::vector<Source>& sources, const Registers& r) const {
  for (const Root& root : roots_) {
    const bool is_read = root.kind == SourceKind::DictValue || root.kind == SourceKind::SequenceItem;
    if (is_read && r[root.index] != root.value) return false;
  }
  if (!facts_.hold(sources, registers_)) return false;
  ++repeats_;
  return true;
}

}  // namespace vesta::capture
