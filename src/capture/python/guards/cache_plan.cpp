#include "capture/python/guards/cache_plan.h"

#include <algorithm>

#include "capture/python/tensors/tensors.h"

namespace vesta::capture {
namespace {

using enum CachePlan::Stay;
using Stay = CachePlan::Stay;

constexpr size_t kFewSources = 4;  // for fewer, a check of all guards is as quick

bool is_sequence_type(const PyTypeObject* type) {
  return type && (type->tp_flags & (Py_TPFLAGS_LIST_SUBCLASS | Py_TPFLAGS_TUPLE_SUBCLASS)) != 0;
}

struct Planner {
  CachePlan& plan;
  const std::vector<Source>& sources;
  const std::vector<Guard>& guards;
  // By source.
  std::vector<PyTypeObject*> type = std::vector<PyTypeObject*>(sources.size());  // that a guard asks for
  std::vector<char> has_dict = std::vector<char>(sources.size());                // attributes are read
  std::vector<char> is_written = std::vector<char>(sources.size());              // by the segment

  // An argument in a tuple or dict that is made for the call.
  bool is_read_first(int source) const {
    const Source& s = sources[static_cast<size_t>(source)];
    if (plan.stays[static_cast<size_t>(source)] != Changes || is_written[static_cast<size_t>(source)]) return false;
    if (s.kind == SourceKind::Local) return true;
    return (s.kind == SourceKind::DictValue || s.kind == SourceKind::SequenceItem) && is_read_first(s.parent);
  }

  void read_first(int source) {
    if (std::find(plan.first_sources.begin(), plan.first_sources.end(), source) != plan.first_sources.end()) return;
    const Source& s = sources[static_cast<size_t>(source)];
    if (s.kind != SourceKind::Local) read_first(s.parent);
    plan.first_sources.push_back(source);
  }

  void choose_sources() {
    for (size_t i = 0; i < sources.size(); ++i) {
      if (!plan.loaded[i]) continue;
      const Source& s = sources[i];
      const auto parent = static_cast<size_t>(s.parent < 0 ? 0 : s.parent);
      const Stay above = s.parent >= 0 && !is_written[parent] ? plan.stays[parent] : Changes;
      // An argument is worth comparing if much hangs on it, and if it may be the same in the next call.
      const bool is_holder = has_dict[i] && !is_written[i] && !(type[i] && PyType_IsSubtype(type[i], tensor_class()));
      Stay& stays = plan.stays[i];
      switch (s.kind) {
        case SourceKind::Constant: stays = SameObject; break;
        case SourceKind::Function:
        case SourceKind::Globals:
        case SourceKind::Builtins: stays = SamePlace; break;
        case SourceKind::Local: stays = is_holder ? SamePlace : Changes; break;
        case SourceKind::InstanceDict:
        case SourceKind::Member:
          stays = above ? SamePlace : Changes;
          if (above) plan.typed[parent] = 1;
          break;
        case SourceKind::DictValue:
          stays = !above ? Changes : plan.is_unsteady(s.parent) ? SamePlace : SameObject;
          break;
        case SourceKind::DictKey:
          // An OrderedDict moves a key without a write to the dict.
          stays =
              above && !plan.is_unsteady(s.parent) && !(type[parent] && PyType_IsSubtype(type[parent], &PyODict_Type))
                  ? SameObject
                  : Changes;
          break;
        case SourceKind::MethodSelf:
        case SourceKind::MethodFunction: stays = above == SameObject ? SameObject : Changes; break;
        case SourceKind::SequenceItem:
          if (above == SameObject && type[parent] == &PyTuple_Type)
            stays = SameObject;
          else if (above && is_sequence_type(type[parent]))
            stays = SamePlace;
          break;
        case SourceKind::CellContents:
        case SourceKind::ClosureCell:
        case SourceKind::Defaults:
        case SourceKind::KwDefaults: stays = above ? SamePlace : Changes; break;
        default: break;
      }
      if (stays == Changes && s.kind != SourceKind::Local && is_holder && is_read_first(static_cast<int>(i))) {
        read_first(s.parent);
        plan.first_sources.push_back(static_cast<int>(i));
        stays = SamePlace;
      }
      // What is read from an object that may be another one depends on its class.
      if (above == SamePlace && s.kind != SourceKind::InstanceDict) plan.typed[parent] = 1;
    }
    for (size_t i = 0; i < sources.size(); ++i)
      if (plan.loaded[i] && plan.stays[i] == Changes) plan.changing_sources.push_back(static_cast<int>(i));
  }

  void choose_guards() {
    for (size_t i = 0; i < guards.size(); ++i) {
      const Guard& g = guards[i];
      const auto source = static_cast<size_t>(g.source < 0 ? 0 : g.source);
      const Stay stay = g.source >= 0 ? plan.stays[source] : Changes;
      bool stays = stay != Changes;
      switch (g.check) {
        case Check::Type:
          // An object's class may be set, but for classes of C.
          if (stays && (stay == SamePlace || !type[source] || type[source]->tp_flags & Py_TPFLAGS_HEAPTYPE))
            plan.typed[source] = 1;
          break;
        case Check::Is:
        case Check::Skipped:
        case Check::Present:
        case Check::Absent: break;
        case Check::Equals: stays = stay == SameObject; break;
        case Check::Same:
        case Check::Different: stays = stays && plan.stays[static_cast<size_t>(g.number)] != Changes; break;
        case Check::Length:
        case Check::Keys:
          stays = stays && !is_written[source] && !plan.is_unsteady(g.source);
          if (g.check == Check::Keys && type[source] && PyType_IsSubtype(type[source], &PyODict_Type)) stays = false;
          if (stays && stay == SamePlace) plan.typed[source] = 1;
          break;
        case Check::Code:
          if (stays) plan.typed[source] = 1;
          break;
        case Check::Members:
        case Check::Class:
        case Check::Tensor:
        case Check::Bare: stays = false; break;
      }
      if (!stays) plan.changing_guards.push_back(static_cast<int>(i));
    }
  }
};

}  // namespace

CachePlan::CachePlan(const std::vector<Source>& sources, const std::vector<Guard>& guards,
                     std::vector<int> written_sources, std::vector<bool> loaded_sources,
                     std::vector<bool> unsteady_dicts)
    : written(std::move(written_sources)),
      loaded(std::move(loaded_sources)),
      unsteady(std::move(unsteady_dicts)),
      stays(sources.size(), Changes),
      typed(sources.size(), 0) {
  if (sources.size() < kFewSources) return;
  Planner p{*this, sources, guards};
  for (const int w : written) p.is_written[static_cast<size_t>(w)] = 1;
  for (const Source& s : sources)
    if (s.kind == SourceKind::InstanceDict) p.has_dict[static_cast<size_t>(s.parent)] = 1;
  for (const Guard& g : guards)
    if (g.source >= 0 && g.check == Check::Type && PyType_Check(g.expected))
      p.type[static_cast<size_t>(g.source)] = reinterpret_cast<PyTypeObject*>(g.expected);
  p.choose_sources();
  p.choose_guards();
  useful = changing_guards.size() + 2 <= guards.size();
}

}  // namespace vesta::capture
