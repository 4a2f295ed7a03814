#include "capture/python/guards/memo.h"

#include <algorithm>

#include "capture/python/guards/dict_version.h"

namespace vesta::capture {
namespace {

constexpr size_t kFewSources = 4;    // a plain check is as quick
constexpr int kMostRemembered = 64;  // without a repeat in between: the roots are others each time

bool is_root(SourceKind k) {
  return k == SourceKind::Local || k == SourceKind::Function || k == SourceKind::Globals || k == SourceKind::Builtins;
}

}  // namespace

Memo::Memo(const std::vector<Source>& sources, const std::vector<Guard>& guards, const std::vector<int>& written)
    : stays_(sources.size(), 0) {
  if (sources.size() < kFewSources) return;
  std::vector<char> has_dict(sources.size(), 0), is_written(sources.size(), 0), wanted(sources.size(), 0);
  for (const int w : written) is_written[static_cast<size_t>(w)] = 1;
  for (const Source& s : sources)
    if (s.kind == SourceKind::InstanceDict) has_dict[static_cast<size_t>(s.parent)] = 1;
  std::vector<char> has_order(sources.size(), 0);  // an OrderedDict: moving a key is no write of the dict
  for (const Guard& g : guards) {
    if (g.source < 0 || g.check != Check::Type || !PyType_Check(g.expected)) continue;
    if (PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(g.expected), &PyODict_Type))
      has_order[static_cast<size_t>(g.source)] = 1;
  }
  for (const Guard& g : guards)
    if (g.source >= 0 && g.check == Check::Type && PyType_Check(g.expected) &&
        !(reinterpret_cast<PyTypeObject*>(g.expected)->tp_flags & Py_TPFLAGS_HEAPTYPE) &&
        g.expected == reinterpret_cast<PyObject*>(&PyTuple_Type))
      wanted[static_cast<size_t>(g.source)] = 1;  // an exact tuple: its items stay
  for (size_t i = 0; i < sources.size(); ++i) {
    const Source& s = sources[i];
    const auto parent = static_cast<size_t>(s.parent < 0 ? 0 : s.parent);
    const bool parent_stays = s.parent >= 0 && stays_[parent] && !is_written[parent];
    switch (s.kind) {
      case SourceKind::Constant:
      case SourceKind::Function:
      case SourceKind::Globals:
      case SourceKind::Builtins: stays_[i] = 1; break;
      // An argument is worth comparing if much hangs on it.
      case SourceKind::Local: stays_[i] = has_dict[i]; break;
      case SourceKind::InstanceDict:
      case SourceKind::DictValue:
      case SourceKind::MethodSelf:
      case SourceKind::MethodFunction: stays_[i] = parent_stays; break;
      case SourceKind::DictKey: stays_[i] = parent_stays && !has_order[parent]; break;
      // A function lives as long as one call, often, and the next is where it was: with other cells.
      case SourceKind::ClosureCell: break;
      case SourceKind::SequenceItem: stays_[i] = parent_stays && wanted[parent]; break;
      default: break;
    }
    if (!stays_[i]) changing_sources_.push_back(static_cast<int>(i));
  }
  for (size_t i = 0; i < guards.size(); ++i) {
    const Guard& g = guards[i];
    bool stays = g.source >= 0 && stays_[static_cast<size_t>(g.source)];
    switch (g.check) {
      case Check::Type:
      case Check::Is:
      case Check::Equals:
      case Check::Present:
      case Check::Absent: break;
      case Check::Same:
      case Check::Different: stays = stays && stays_[static_cast<size_t>(g.number)]; break;
      case Check::Length:
      case Check::Keys:
        // A dict's own version, or a tuple.
        stays = stays && !is_written[static_cast<size_t>(g.source)] && !has_order[static_cast<size_t>(g.source)];
        break;
      case Check::Members:
      case Check::Class:
      case Check::Tensor:
      case Check::Bare:
      case Check::Code: stays = false; break;
    }
    if (!stays) changing_guards_.push_back(static_cast<int>(i));
  }
  useful_ = changing_guards_.size() + 2 <= guards.size();
}

void Memo::remember(const std::vector<Source>& sources, const std::vector<Guard>& guards, const Registers& r) {
  valid_ = false;
  ++state_;
  if (!useful_) return;
  if (++remembered_ > kMostRemembered && repeats_ < remembered_) {
    useful_ = false;
    return;
  }
  facts_.clear();
  registers_ = r.objects;
  std::vector<char> dict_read(sources.size(), 0);
  auto reads = [&](int s) {
    if (s >= 0) dict_read[static_cast<size_t>(s)] = 1;
  };
  for (size_t i = 0; i < sources.size(); ++i)
    if (stays_[i] && (sources[i].kind == SourceKind::DictValue || sources[i].kind == SourceKind::DictKey))
      reads(sources[i].parent);
  for (const Guard& g : guards)
    if (g.source >= 0 && stays_[static_cast<size_t>(g.source)] &&
        (g.check == Check::Length || g.check == Check::Keys)) {
      PyObject* x = r[g.source];
      if (!x || PyTuple_CheckExact(x)) continue;
      if (!PyDict_Check(x)) {
        // A list may change without a sign.
        const int index = static_cast<int>(&g - guards.data());
        if (std::find(changing_guards_.begin(), changing_guards_.end(), index) == changing_guards_.end()) {
          changing_guards_.push_back(index);
          std::sort(changing_guards_.begin(), changing_guards_.end());
        }
        continue;
      }
      reads(g.source);
    }
  for (size_t i = 0; i < sources.size(); ++i) {
    if (!stays_[i]) continue;
    PyObject* x = r.objects[i];
    const Source& s = sources[i];
    // What no guard asked for was not read.
    if (is_root(s.kind) && (x || s.kind == SourceKind::Local)) {
      const Fact::Kind kind = s.kind == SourceKind::Local      ? Fact::Local
                              : s.kind == SourceKind::Function ? Fact::Function
                              : s.kind == SourceKind::Globals  ? Fact::Globals
                                                               : Fact::Builtins;
      facts_.push_back({kind, s.index, nullptr, reinterpret_cast<uint64_t>(x)});
    }
    if (!x) continue;
    if (s.kind == SourceKind::InstanceDict) {
      // The object still has this dict, and is of this class.
      PyObject* owner = r[s.parent];
      PyObject** place = _PyObject_GetDictPtr(owner);
      if (!place || *place != x) return;
#if PY_VERSION_HEX >= 0x030d0000
      // While a dict shares its values with the object, writes to attributes do not reach watchers (gh-125608).
      static PyObject* dunder = PyUnicode_InternFromString("__dict__");
      if ((Py_TYPE(owner)->tp_flags & Py_TPFLAGS_INLINE_VALUES) && PyObject_GenericSetAttr(owner, dunder, x) < 0) {
        PyErr_Clear();
        return;
      }
#endif
      facts_.push_back({Fact::Class, 0, owner, reinterpret_cast<uint64_t>(Py_TYPE(owner))});
      facts_.push_back({Fact::Place, 0, static_cast<const void*>(place), reinterpret_cast<uint64_t>(x)});
    }
    if (dict_read[i]) {
      const uint64_t* version = PyDict_Check(x) ? dict_version_of(x) : nullptr;
      if (!version) {
        useful_ = false;
        return;
      }
      facts_.push_back({Fact::Version, 0, version, *version});
    }
  }
  valid_ = true;
}

bool Memo::repeats(Frame* f) const {
  if (!valid_) return false;
  for (const Fact& fact : facts_) {
    bool same = false;
    switch (fact.kind) {
      case Fact::Local: same = reinterpret_cast<uint64_t>(slot(f, fact.slot)) == fact.value; break;
      case Fact::Function: same = reinterpret_cast<uint64_t>(function_of(f)) == fact.value; break;
      case Fact::Globals: same = reinterpret_cast<uint64_t>(globals_of(f)) == fact.value; break;
      case Fact::Builtins: same = reinterpret_cast<uint64_t>(builtins_of(f)) == fact.value; break;
      case Fact::Class:
        same = reinterpret_cast<uint64_t>(Py_TYPE(static_cast<const PyObject*>(fact.place))) == fact.value;
        break;
      case Fact::Place: same = *static_cast<const uint64_t*>(fact.place) == fact.value; break;
      case Fact::Version: same = *static_cast<const uint64_t*>(fact.place) == fact.value; break;
    }
    if (!same) return false;
  }
  ++repeats_;
  return true;
}

}  // namespace vesta::capture
