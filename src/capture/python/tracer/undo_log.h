// What a trace writes to objects, so that the writes can be undone and, by the epilogue, done again.
//
// Guarantees: `roll_back` restores each object to its state before its first write, in the reverse order of first
// writes; keys and items that were there all the time keep their places. No code of the program runs: keys are not
// asked for their hashes. Objects that are new in the trace may be logged too, which costs a copy and changes nothing.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "capture/python/object.h"
#include "capture/python/place_hash.h"

namespace vesta::capture {

class UndoLog {
 public:
  struct Entry {
    Object target;
    // Before the first write: a copy of a dict, the items of a list or set as a tuple, the contents of a cell or slot.
    Object before;
    int offset = -1;  // of a slot, in bytes; kGradient and its like
    bool only_appended = false;
    // Whether this key of a dict was written by itself, if only with the value that it had.
    bool wrote(PyObject* key) const;
    Object scalar_keys;  // a set
    std::vector<Object> other_keys;
  };
  enum class Writes { Append, Any };
  static constexpr int kGradient = -2, kRequiresGrad = -3, kData = -4;  // the offsets of a leaf's attributes

  // Called before a write. -1 with an error set if memory is short.
  // Without a key: any key may be written.
  int dict(PyObject* dict, PyObject* key = nullptr);
  int items(PyObject* container, Writes kind);  // a list or a set
  void cell(PyObject* cell);
  void member(PyObject* object, int offset);
  void gradient(PyObject* leaf);
  void requires_grad(PyObject* leaf);
  void data(PyObject* leaf);  // the trace writes to its fake tensor alone: there is nothing to restore

  // While it is set, each write adds its target.
  std::vector<Object>* targets = nullptr;

  const Entry* find(PyObject* target, int offset = -1) const;
  const std::deque<Entry>& entries() const { return order_; }  // in the order of first writes

  // What a dict had under a key before the trace; borrowed, nullptr: nothing.
  PyObject* before(PyObject* dict, PyObject* key) const;
  // Undoes all writes. An error that is set stays set.
  void roll_back();

 private:
  void note(PyObject* target) {
    if (targets) targets->push_back(Object::share(target));
  }
  Entry* add(PyObject* target, Object before, int offset);
  Entry* add_dict(PyObject* dict);
  static void restore(const Entry& e);
  std::unordered_map<std::tuple<PyObject*, int>, Entry*, PlaceHash> entries_;  // by target and offset
  std::deque<Entry> order_;
};

// Gives a set the items of a list or tuple; items that it has already keep their places. False with an error set.
bool assign_set(PyObject* set, PyObject* items);
// A new tuple of the items of a list, tuple or set; nullptr with an error set.
PyObject* items_of(PyObject* container);

}  // namespace vesta::capture
