// What one check of a guard program reads: an object for each source. The objects are borrowed, but for computed ones.
#pragma once

#include <cstdint>
#include <vector>

#include "capture/python/object.h"

namespace vesta::capture {

struct Registers {
  std::vector<PyObject*> objects;  // by source; nullptr: not read, or absent
  std::vector<Object> computed;    // by source: results that no other object owns
  // The inputs of a graph. They live here because a fresh allocation of this size may make the C library sort its free
  // list, and because most of them are those of the call before.
  std::vector<PyObject*> tensors;
  uint64_t tensors_of = 0;            // what of_cache was when all of them were found; 0: find all
  std::vector<size_t> other_tensors;  // those that each call finds again
  std::vector<int64_t> integers;
  uint64_t of_cache = 0;   // the state of the guard cache for which these registers were filled; 0: none
  bool apart = false;      // no written object is another source's object; not checked for the sources in `moved`
  std::vector<int> moved;  // sources that have given another object since
  PyObject*& operator[](int source) { return objects[static_cast<size_t>(source)]; }
  PyObject* operator[](int source) const { return objects[static_cast<size_t>(source)]; }
};

}  // namespace vesta::capture
