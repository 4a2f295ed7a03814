// Weak references to objects that are known by where they are: whoever has them is told when one of them goes.
#pragma once

#include <functional>
#include <vector>

#include "capture/python/object.h"

namespace vesta::capture {

class WeakReferences {
 public:
  WeakReferences() = default;
  // Called with the GIL held, at most once for each object, and not after clear().
  explicit WeakReferences(std::function<void()> when_one_goes);
  // False: there can be no weak reference to it.
  bool add(PyObject* x);
  void clear() { references_.clear(); }
  // Made by this class: nobody but Vesta is told.
  static bool is_one(const PyWeakReference* reference);

 private:
  Object callback_;
  std::vector<Object> references_;
};

}  // namespace vesta::capture
