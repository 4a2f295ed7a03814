// What a trace writes to objects, so that it can be taken back. Every object is remembered as it was before its first
// write; objects that are new in the trace are remembered too, which costs a copy and changes nothing.
#pragma once

#include <unordered_map>
#include <vector>

#include "capture/python/object.h"

namespace vesta::capture {

class UndoLog {
 public:
  struct Entry {
    Object target;
    // Before the first write: a dict's copy, the items of a list, set or deque as a tuple, a cell's or slot's contents.
    Object before;
    int offset = -1;  // of a slot: in bytes
    bool only_appended = false;
    // Keys of a dict that were written one by one, with what they had before, it may be.
    bool wrote(PyObject* key) const;
    Object scalar_keys;  // a set
    std::vector<Object> other_keys;
  };
  enum class Writes { Append, Any };

  // To be called before a write. Each -1 with an error set if memory is short.
  // Without a key: any of them may be written, all are read.
  int dict(PyObject* dict, PyObject* key = nullptr);
  int list(PyObject* list, Writes kind);
  int set(PyObject* set);
  int deque(PyObject* deque);
  int cell(PyObject* cell);
  int member(PyObject* object, int offset);

  const Entry* find(PyObject* target, int offset = -1) const;
  const std::vector<Entry*>& entries() const { return order_; }  // in the order of first writes

  // What the dict had under the key before the trace; borrowed, nullptr: nothing.
  PyObject* before(PyObject* dict, PyObject* key) const;
  // Everything is as it was.
  void roll_back();
  ~UndoLog();

 private:
  Entry* add(PyObject* target, Object before, int offset);
  Entry* add_dict(PyObject* dict);
  static void restore(const Entry& e);
  struct Key {
    PyObject* target;
    int offset;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& k) const { return std::hash<void*>()(k.target) ^ static_cast<size_t>(k.offset); }
  };
  std::unordered_map<Key, Entry*, Hash> entries_;
  std::vector<Entry*> order_;
};

// The set has these items then, of a list or tuple; those that were there keep their places in its order.
bool assign_set(PyObject* set, PyObject* items);
// A tuple of the items of a list, set or deque.
PyObject* items_of(PyObject* container);

}  // namespace vesta::capture
