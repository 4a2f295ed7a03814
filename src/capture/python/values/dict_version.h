// Numbers that change whenever a dict does: two equal readings mean that nobody wrote to the dict in between.
#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

namespace vesta::capture {

// The address of this dict's number, for the life of the dict. nullptr: Python has no watcher left for us.
const uint64_t* dict_version_of(PyObject* dict);

// One number for many dicts. It is for dicts that are rarely written, because a watched dict calls us at each write.
// Python 3.11 has no watchers. All members need the GIL but the destructor.
class DictsWatch {
 public:
  DictsWatch() = default;
  ~DictsWatch();
  DictsWatch& operator=(DictsWatch&&) = delete;  // neither copied nor moved
  // Whether writes to this dict change the number from now on. The end of the dict counts as a write.
  bool add(PyObject* dict);
  void clear();
  uint64_t changes() const { return changes_; }
  void changed() { ++changes_; }

 private:
  void leave(bool unwatch);

  std::vector<PyObject*> dicts_;  // perhaps dead
  uint64_t changes_ = 1;
};

}  // namespace vesta::capture
