// The fake tensors of a trace: one for each tensor of the program that the trace reads.
//
// Guarantees: a real tensor has one fake tensor, whichever source leads to it; C code and containers of the program may
// hold the real one, and the program gets the fake one. Which sizes are symbolic follows from the history of the
// source's sizes and from the tensor's marks (torch._dynamo.mark_dynamic).
#pragma once

#include <unordered_map>
#include <vector>

#include "capture/python/object.h"

namespace vesta::capture {

class Trace;

class FakeTensors {
 public:
  explicit FakeTensors(Trace& trace) : t_(trace) {}

  // The fake tensor of the tensor at a source, with its guards; new, nullptr with an error set. A tensor of a subclass
  // is its own fake tensor: its class's operators see it.
  PyObject* track(PyObject* real, int source);
  // The fake tensor of an object, if it has one; borrowed, x itself otherwise.
  PyObject* fake_of(PyObject* x) const { return found_in(fake_of_, x, x); }
  // The real tensor of a fake one; borrowed, nullptr otherwise.
  PyObject* real_of(PyObject* x) const { return found_in(real_of_, x, nullptr); }
  // The real tensor of a fake one, or x itself; borrowed.
  PyObject* held_by_program(PyObject* x) const { return found_in(real_of_, x, x); }
  // An object that C code returned: its fake tensor, if it has one. Takes the reference and gives one; nullptr stays
  // so.
  PyObject* wrap(PyObject* x) const;
  // A list or tuple with fake tensors in place of real ones, for functions that read values without the dispatcher. The
  // object itself if it holds none; a copy otherwise. Empty with an error set.
  Object wrap_items(PyObject* x, int depth) const;
  // A real tensor whose properties are read becomes an input of the graph. False: the trace has ended.
  bool lift(PyObject* tensor);

 private:
  std::vector<bool> symbolic_sizes(PyObject* real, int source);

  Trace& t_;
  std::unordered_map<PyObject*, PyObject*> fake_of_, real_of_;  // SourceTable keeps them
};

}  // namespace vesta::capture
