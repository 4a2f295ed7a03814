// Objects that came into being in the trace.
//
// Guarantees: cells, functions and classes that instructions make are kept until the trace ends, and are told from
// those that existed before. The count of the instruction that made an object says from where a trace must be cut so
// that the object does not exist at the break.
#pragma once

#include <unordered_map>

#include "capture/python/object.h"

namespace vesta::capture {

class Trace;

class MadeObjects {
 public:
  explicit MadeObjects(Trace& trace) : t_(trace) {}

  // A cell, function or class that an instruction has made.
  void add(PyObject* x);
  bool contains(PyObject* x) const { return made_.contains(x); }
  // A result of the root frame's instruction at work.
  void add_result(PyObject* x);
  // A generator that a call has made. Another one may have been at its address before.
  void add_generator(PyObject* x);
  // The count of the root frame's instruction that made x, or -1.
  int born_at(PyObject* x) const { return found_in(born_, x, -1); }

 private:
  Trace& t_;
  std::unordered_map<PyObject*, Object> made_;
  std::unordered_map<PyObject*, int> born_;
};

}  // namespace vesta::capture
