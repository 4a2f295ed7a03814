// Python 3.11 and 3.12 count the changes of every dict. From 3.12 on Python calls watchers, too; 3.13 has them alone.
#include "capture/python/values/dict_version.h"

#include <algorithm>
#include <unordered_map>

namespace vesta::capture {

#if PY_VERSION_HEX >= 0x030c0000

namespace {

struct WatchedDict {
  uint64_t version = 0;
  bool has_version = false;  // dict_version_of() gave its address away
  std::vector<DictsWatch*> watches;
};

struct Watcher {
  std::unordered_map<PyObject*, WatchedDict> dicts;
  int number = -2;  // Python's; -2: not asked for yet, -1: none is left
};
Watcher& watcher() {
  static auto* w = new Watcher();
  return *w;
}

// Python calls it before a dict changes.
int changed(PyDict_WatchEvent event, PyObject* dict, PyObject*, PyObject*) {
  auto& dicts = watcher().dicts;
  const auto it = dicts.find(dict);
  if (it == dicts.end()) return 0;
  WatchedDict& w = it->second;
  // The number outlives the dict: a comparison with it must still fail. Another dict at the same address goes on
  // counting.
  ++w.version;
  for (DictsWatch* watch : w.watches) watch->changed();
  if (event == PyDict_EVENT_DEALLOCATED) {
    w.watches.clear();
    if (!w.has_version) dicts.erase(it);
  }
  return 0;
}

// nullptr: Python has no watcher left.
WatchedDict* watch(PyObject* dict) {
  Watcher& w = watcher();
  if (w.number == -2) {
    w.number = PyDict_AddWatcher(changed);
    if (w.number < 0) PyErr_Clear();
  }
  if (w.number < 0 || PyDict_Watch(w.number, dict) < 0) {
    PyErr_Clear();
    return nullptr;
  }
  return &w.dicts[dict];
}

}  // namespace

bool DictsWatch::add(PyObject* dict) {
  WatchedDict* const w = watch(dict);
  if (!w) return false;
  if (std::find(w->watches.begin(), w->watches.end(), this) == w->watches.end()) {
    w->watches.push_back(this);
    dicts_.push_back(dict);
  }
  return true;
}

void DictsWatch::leave(bool unwatch) {
  Watcher& all = watcher();
  for (PyObject* dict : dicts_) {
    const auto it = all.dicts.find(dict);
    // A dict that died has left its list.
    if (it == all.dicts.end() || std::erase(it->second.watches, this) == 0) continue;
    if (!it->second.watches.empty() || it->second.has_version) continue;
    if (unwatch && PyDict_Unwatch(all.number, dict) < 0) PyErr_Clear();
    all.dicts.erase(it);
  }
  dicts_.clear();
}

#else

bool DictsWatch::add(PyObject*) { return false; }
void DictsWatch::leave(bool) {}

#endif

void DictsWatch::clear() { leave(true); }
DictsWatch::~DictsWatch() { leave(false); }  // perhaps without Python

#if PY_VERSION_HEX < 0x030d0000

// Python 3.12 deprecates the field and still counts in it. Reading it costs no call at a change.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
const uint64_t* dict_version_of(PyObject* dict) { return &reinterpret_cast<PyDictObject*>(dict)->ma_version_tag; }
#pragma GCC diagnostic pop

#else

const uint64_t* dict_version_of(PyObject* dict) {
  WatchedDict* const w = watch(dict);
  if (!w) return nullptr;
  w->has_version = true;
  return &w->version;
}

#endif

}  // namespace vesta::capture
