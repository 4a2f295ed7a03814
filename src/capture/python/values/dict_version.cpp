// Python 3.11 and 3.12 count the changes of every dict. Later versions call watchers instead (PEP 699): there, a
// watcher of ours keeps a number for each dict that a caller asked about.
#include "capture/python/values/dict_version.h"

#include <memory>
#include <unordered_map>

namespace vesta::capture {

#if PY_VERSION_HEX < 0x030d0000

// Python 3.12 deprecates the field and still counts in it. Reading it costs no call at a change.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
const uint64_t* dict_version_of(PyObject* dict) { return &reinterpret_cast<PyDictObject*>(dict)->ma_version_tag; }
#pragma GCC diagnostic pop

#else

namespace {

struct Watched {
  std::unordered_map<PyObject*, std::unique_ptr<uint64_t> > versions;
  int watcher = -2;  // -2: not asked for yet, -1: none is left
};
Watched& watched() {
  static auto* w = new Watched();
  return *w;
}

int changed(PyDict_WatchEvent, PyObject* dict, PyObject*, PyObject*) {
  auto& versions = watched().versions;
  const auto it = versions.find(dict);
  if (it == versions.end()) return 0;
  ++*it->second;
  // The number outlives the dict: a comparison with it must still fail. Another dict at the same address goes on
  // counting.
  return 0;
}

}  // namespace

const uint64_t* dict_version_of(PyObject* dict) {
  Watched& w = watched();
  if (w.watcher == -2) {
    w.watcher = PyDict_AddWatcher(changed);
    if (w.watcher < 0) PyErr_Clear();
  }
  if (w.watcher < 0 || PyDict_Watch(w.watcher, dict) < 0) {
    PyErr_Clear();
    return nullptr;
  }
  std::unique_ptr<uint64_t>& version = w.versions[dict];
  if (!version) version = std::make_unique<uint64_t>(0);
  return version.get();
}

#endif

}  // namespace vesta::capture
