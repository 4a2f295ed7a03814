// What a variant knows by its address (a class, a function, an object whose id was asked for), it does not keep alive:
// when such an object goes, the variant has served its last call.
#pragma once

#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "capture/python/weak_references.h"

namespace vesta::capture {

class Watched {
 public:
  // `holders`: all references that the variant has. Those to objects that others own as well are dropped.
  explicit Watched(std::span<std::vector<Object>* const> holders);
  Watched() = default;
  // None of them has gone. If one has, no pointer of the variant may be followed but those it holds.
  bool alive() const { return !gone_ || !*gone_; }
  // The variant does not hold it.
  bool contains(PyObject* x) const { return objects_.contains(x); }

 private:
  std::shared_ptr<bool> gone_;
  std::unordered_set<PyObject*> objects_;
  WeakReferences references_;
};

}  // namespace vesta::capture
