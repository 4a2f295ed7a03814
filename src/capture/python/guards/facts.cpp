#include "capture/python/guards/facts.h"

#include <algorithm>

#include "capture/python/sources/read_source.h"
#include "capture/python/values/object_parts.h"

namespace vesta::capture {
namespace {

constexpr size_t kManyDicts = 32;  // for fewer, their versions are read as quickly

PyObject** items_of(PyObject* sequence) {
  return PyList_Check(sequence) ? reinterpret_cast<PyListObject*>(sequence)->ob_item
                                : reinterpret_cast<PyTupleObject*>(sequence)->ob_item;
}

}  // namespace

void Facts::begin(size_t dicts) {
  lists_ = {};
  known_ = {};
  versions_.clear();
  watch_.clear();
  watches_ = dicts >= kManyDicts;
  held_ = noted();
}

void Facts::finish() {
  known_ = {};
  if (!watches_) lists_[Always] = lists_[PartsChanged] = {};
}

Facts::Noted Facts::noted() const { return {watch_.changes(), part_changes()}; }

// Two ways may lead over one word. Whatever is behind it comes behind its first fact.
void Facts::add(const Fact& fact, When when) {
  if (!known_.insert(fact.place).second) return;
  for (size_t w = when; w < lists_.size(); ++w) lists_[w].words.push_back(fact);
}

Facts::When Facts::after_parts(PyObject* x, bool stays) const {
  return watches_ && stays && notes_parts_of(Py_TYPE(x)) ? PartsChanged : Always;
}

bool Facts::is_version(int source, PyObject* dict) {
  if (!PyDict_Check(dict)) return false;
  // First: Python 3.12 notes in a dict's version that the dict is watched.
  watches_ = watches_ && watch_.add(dict);
  const uint64_t* const version = dict_version_of(dict);
  if (!version) return false;
  versions_.push_back({source, version, *version});
  add({version, *version}, DictsChanged);
  return true;
}

bool Facts::is_read(int source, const Source& s, PyObject* parent, bool parent_stays, PyObject* x) {
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
      is(place, x, after_parts(parent, parent_stays));
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
    case SourceKind::Member: is(&member_at(parent, s.index), x); return true;
    case SourceKind::DictValue:  // of an unsteady dict
      for (List& list : lists_) list.lookups.push_back({list.words.size(), source});
      return true;
    default: return true;
  }
}

bool Facts::hold(const List& list, const std::vector<Source>& sources, const std::vector<PyObject*>& registers) {
  // The places lie anywhere: each is asked for before it is read. One that is gone may be asked for as well.
  constexpr size_t kAhead = 32;
  const std::vector<Fact>& words = list.words;
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
  for (const Lookup& l : list.lookups) {
    if (!hold_until(l.facts)) return false;
    const Source& s = sources[static_cast<size_t>(l.source)];
    PyObject* const dict = registers[static_cast<size_t>(s.parent)];
    if (read_source(s, {}, dict, nullptr, nullptr) != registers[static_cast<size_t>(l.source)]) return false;
  }
  return hold_until(words.size());
}

bool Facts::hold(const std::vector<Source>& sources, const std::vector<PyObject*>& registers) const {
  const Noted now = noted();
  const When when = !watches_ || now.dicts != held_.dicts ? DictsChanged
                    : now.parts != held_.parts            ? PartsChanged
                                                          : Always;
  if (!hold(lists_[when], sources, registers)) return false;
  held_ = now;
  return true;
}

}  // namespace vesta::capture
