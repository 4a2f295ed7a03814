// Weak references to objects that others know by their addresses, with one callback for the death of any of them.
#pragma once

#include <functional>
#include <vector>

#include "capture/python/object.h"

namespace vesta::capture {

class WeakReferences {
 public:
  WeakReferences() = default;
  // `when_one_dies` is called with the GIL held, at most once for each object, and never after clear().
  explicit WeakReferences(std::function<void()> when_one_dies);
  // False: objects of this class have no weak references.
  bool add(PyObject* x);
  void clear() { references_.clear(); }
  // A reference that this class made: no code of the program observes the object through it.
  static bool is_one(const PyWeakReference* reference);

 private:
  Object callback_;
  std::vector<Object> references_;
};

}  // namespace vesta::capture
