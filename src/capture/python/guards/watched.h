// Objects that a variant knows by their addresses and does not keep alive: classes, functions, objects whose id() was
// read. When one of them dies, the variant must not be used any more.
#pragma once

#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "capture/python/weak_references.h"

namespace vesta::capture {

class Watched {
 public:
  // `holders`: all references of the variant. Drops those to objects that others own as well, and watches these.
  explicit Watched(std::span<std::vector<Object>* const> holders);
  Watched() = default;
  // All of them are alive. If not, only pointers that the variant owns may be followed.
  bool alive() const { return !gone_ || !*gone_; }
  // It is watched: the variant does not own it.
  bool contains(PyObject* x) const { return objects_.contains(x); }

 private:
  std::shared_ptr<bool> gone_;
  std::unordered_set<PyObject*> objects_;
  WeakReferences references_;
};

}  // namespace vesta::capture
